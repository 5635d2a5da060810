// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaces looks up the namespace of a request: first in a cache that a watch keeps
// current, a moment late, and then live. Only a live read shows that a namespace doesn't exist.
package namespaces

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/ready"
)

// Namespaces looks up the namespaces of the cluster.
type Namespaces struct {
	// The gate opens once the cache has synced. Of waits for it; Get doesn't. A plugin that uses
	// Cache must wait itself.
	ready.Gate
	// Cache has the namespaces as the watch showed them last. Callers must not change them.
	Cache corev1listers.NamespaceLister

	client kubernetes.Interface
}

// New is called in a plugin's New. The error names the plugin and what env lacks.
func New(plugin string, env *plugin.Env) (*Namespaces, error) {
	if err := ready.Needs(plugin, env); err != nil {
		return nil, err
	}
	informer := env.Informers.Core().V1().Namespaces()
	return &Namespaces{ready.After(informer.Informer()), informer.Lister(), env.Client}, nil
}

// Of returns the namespace of the request. Callers must not change it. The error is the request's
// refusal: 404 if there is no such namespace, 403 if the cache doesn't sync in time, and an
// internal error if the live read fails otherwise, which says nothing about the request.
func (n *Namespaces) Of(ctx context.Context, a admission.Attributes) (*corev1.Namespace, error) {
	if err := n.Wait(ctx, a); err != nil {
		return nil, err
	}
	namespace, err := n.Get(ctx, a.GetNamespace())
	if err != nil {
		return nil, Refusal(err)
	}
	return namespace, nil
}

// Get returns a namespace from the cache, or else from the server. Callers must not change it. Get
// doesn't wait for the cache: if the cache hasn't synced, there are only more live reads.
func (n *Namespaces) Get(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := n.Cache.Get(name)
	if err != nil && apierrors.IsNotFound(err) {
		return n.Live(ctx, name)
	}
	return namespace, err
}

// Live reads a namespace from the server.
func (n *Namespaces) Live(ctx context.Context, name string) (*corev1.Namespace, error) {
	return n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
}

// Refusal returns the error for a request whose namespace can't be read. A missing namespace is the
// request's fault; other errors aren't.
func Refusal(err error) error {
	if apierrors.IsNotFound(err) {
		return err
	}
	return plugin.Unanswered(err, apierrors.NewInternalError(err))
}

// WarnOfPods warns the client who writes a namespace that its pods will be refused, for the reason err. It does
// nothing if err is nil.
func WarnOfPods(ctx context.Context, err error) {
	if err != nil {
		warning.AddWarning(ctx, "", "pods of this namespace will be refused: "+err.Error())
	}
}
