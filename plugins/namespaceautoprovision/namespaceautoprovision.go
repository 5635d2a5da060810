// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaceautoprovision implements the admission plugin NamespaceAutoProvision, which
// creates the missing namespace of a request that creates or updates an object. It is for clusters
// in which a namespace is a mere prefix that need not be declared.
//
// The plugin creates namespaces with the server's own identity, so every user who may create an
// object in any namespace can bring any namespace into being. It looks for the namespace in the
// cache and, if the cache doesn't have it, creates it; the answer AlreadyExists is as good as
// success. A namespace that is being deleted exists: NamespaceLifecycle, which runs later, refuses
// that request.
//
// A dry run creates nothing and is admitted here; NamespaceLifecycle then refuses it with 404.
package namespaceautoprovision

import (
	"context"
	_ "embed"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugins/internal/namespaces"
)

const name = "NamespaceAutoProvision"

//go:embed README.md
var manual string

// Descriptor describes NamespaceAutoProvision. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Creates the namespace of a request if it doesn't exist",
	Manual:     manual,
	Remedy:     "Have the namespace created by hand; the message says why it could not be.",
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Server: plugin.Server{
		Only: "an API server refuses what is for a missing namespace before it asks webhooks",
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		found, err := namespaces.New(name, env)
		if err != nil {
			return nil, err
		}
		return &namespaceAutoProvision{found, env.Client}, nil
	},
}

type namespaceAutoProvision struct {
	namespaces *namespaces.Namespaces
	client     kubernetes.Interface
}

var _ plugin.Mutator = &namespaceAutoProvision{}

// Admit creates the request's namespace if it is missing.
func (p *namespaceAutoProvision) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.IsDryRun() || a.GetNamespace() == "" || a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	if err := p.namespaces.Wait(ctx, a); err != nil {
		return err
	}

	_, err := p.namespaces.Cache.Get(a.GetNamespace())
	if apierrors.IsNotFound(err) {
		err = p.create(ctx, a.GetNamespace())
	}
	if err != nil {
		return plugin.Unanswered(err, admission.NewForbidden(a, err))
	}
	return nil
}

func (p *namespaceAutoProvision) create(ctx context.Context, namespace string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := p.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
