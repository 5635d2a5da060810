// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/ready"
)

// cluster looks up the objects that requests name. Callers must not change the objects.
type cluster struct {
	synced   ready.Gate
	pods     corev1listers.PodLister
	nodes    corev1listers.NodeLister
	accounts corev1listers.ServiceAccountLister
	client   kubernetes.Interface
}

func newCluster(env *plugin.Env) *cluster {
	core := env.Informers.Core().V1()
	return &cluster{
		synced:   ready.After(core.Pods().Informer(), core.Nodes().Informer(), core.ServiceAccounts().Informer()),
		pods:     core.Pods().Lister(),
		nodes:    core.Nodes().Lister(),
		accounts: core.ServiceAccounts().Lister(),
		client:   env.Client,
	}
}

// pod returns a pod of the request's namespace.
func (c *cluster) pod(ctx context.Context, r request, name string, fits func(*corev1.Pod) bool) (*corev1.Pod, error) {
	return lookUp(ctx, c, r, name, c.pods.Pods(r.GetNamespace()).Get, c.client.CoreV1().Pods(r.GetNamespace()).Get,
		fits)
}

// ownNode returns the Node of the node that makes the request.
func (c *cluster) ownNode(ctx context.Context, r request, fits func(*corev1.Node) bool) (*corev1.Node, error) {
	return lookUp(ctx, c, r, r.node, c.nodes.Get, c.client.CoreV1().Nodes().Get, fits)
}

// account returns a service account of the request's namespace.
func (c *cluster) account(ctx context.Context, r request, name string,
	fits func(*corev1.ServiceAccount) bool) (*corev1.ServiceAccount, error) {
	return lookUp(ctx, c, r, name, c.accounts.ServiceAccounts(r.GetNamespace()).Get,
		c.client.CoreV1().ServiceAccounts(r.GetNamespace()).Get, fits)
}

// lookUp returns the object in the cache if that fits the request. Otherwise it returns the result
// of a live read, even if that doesn't fit. The error is the request's refusal, with status 404 if
// there is no such object.
func lookUp[T any](
	ctx context.Context, c *cluster, r request, name string,
	cached func(string) (*T, error), live func(context.Context, string, metav1.GetOptions) (*T, error),
	fits func(*T) bool,
) (*T, error) {
	if err := c.synced.Wait(ctx, r.Attributes); err != nil {
		return nil, err
	}
	if object, err := cached(name); err == nil && fits(object) {
		return object, nil
	}
	object, err := live(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, err
	case err != nil:
		return nil, plugin.Unanswered(err, r.forbid("error looking up %q: %w", name, err))
	}
	return object, nil
}
