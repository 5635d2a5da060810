// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1apply "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"

	"gatehouse.dev/plugin"
)

// Kubernetes' controllers look every 100 ms whether the caches that they need are full, and some of
// a start wait for each other in the same way. So before any of them begins, the caches are filled,
// and the one object is there that most of them wait for: each then finds at its first look what it
// needs.

// fillTimeout bounds that wait. After it the controllers begin anyway, and check by themselves;
// /readyz reports what is missing.
const fillTimeout = time.Second

// cidrController is the name under which Kubernetes' controller says that a ServiceCIDR is ready.
const cidrController = "kubernetes-service-cidr-controller"

// A filler is a factory of informers.
type filler interface {
	StartWithContext(ctx context.Context)
	WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult
}

// fill fills the caches of the storage and those of the informers that factories make, which live
// until ctx ends.
func (c *config) fill(ctx context.Context, factories ...filler) {
	soon, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	c.backend.Filled(soon)
	for _, f := range factories {
		f.StartWithContext(ctx)
	}
	for _, f := range factories {
		f.WaitForCacheSyncWithContext(soon)
	}
	// Not before: a watch cache learns only within 100 ms that something of another kind was stored, and
	// an informer that is filled from it waits for that.
	c.makeServiceCIDR(soon)
}

// makeServiceCIDR makes the default ServiceCIDR if there is none, as Kubernetes' controller does.
// Without it no Service gets an IP. The controller does again what fails here.
func (c *config) makeServiceCIDR(ctx context.Context) {
	const name = defaultservicecidr.DefaultServiceCIDRName
	cidrs := c.client.NetworkingV1().ServiceCIDRs()
	if _, err := cidrs.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return
	}
	if _, err := cidrs.Create(ctx, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: c.serviceCIDRs()}}, metav1.CreateOptions{}); err != nil {
		return
	}
	ready := metav1apply.Condition().WithType(networkingv1.ServiceCIDRConditionReady).
		WithStatus(metav1.ConditionTrue).WithMessage("Kubernetes default Service CIDR is ready").
		WithLastTransitionTime(metav1.Now())
	stored, err := cidrs.ApplyStatus(ctx, networkingv1apply.ServiceCIDR(name).
		WithStatus(networkingv1apply.ServiceCIDRStatus().WithConditions(ready)),
		metav1.ApplyOptions{FieldManager: cidrController, Force: true})
	if err != nil {
		return
	}
	written := plugin.Written{Resource: networkingv1.Resource("servicecidrs"), Name: stored.Name,
		ResourceVersion: stored.ResourceVersion}
	store := c.informers.Networking().V1().ServiceCIDRs().Informer().GetStore()
	_ = plugin.Until(ctx, func() bool { return written.In(store) })
}

// keepServiceCIDR runs the controller of the default ServiceCIDR. It returns once that is as the
// flags say, or the controller has done what it can.
func (c *config) keepServiceCIDR(hook server.PostStartHookContext) error {
	controller := defaultservicecidr.NewController(c.options.serviceIPs[0], c.options.serviceIPs[1], c.client)
	cidr, err := c.client.NetworkingV1().ServiceCIDRs().Get(hook, defaultservicecidr.DefaultServiceCIDRName,
		metav1.GetOptions{})
	if err == nil && slices.Equal(cidr.Spec.CIDRs, c.serviceCIDRs()) &&
		apimeta.IsStatusConditionTrue(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
		go controller.Start(hook)
		return nil
	}
	controller.Start(hook)
	return nil
}

// serviceCIDRs returns the ranges of Services' IPs.
func (c *config) serviceCIDRs() (cidrs []string) {
	for _, r := range c.options.serviceIPs {
		if r.IP != nil {
			cidrs = append(cidrs, r.String())
		}
	}
	return cidrs
}

// waitingFactory is for the allocators of Services' IPs. As soon as they are made, they ask every 100 ms
// whether their informers have synced, which begin later. Here each answer waits until they have, and
// no longer than fillTimeout.
type waitingFactory struct {
	informers.SharedInformerFactory
}

// Networking implements informers.SharedInformerFactory.
func (f waitingFactory) Networking() networking.Interface {
	return networking.New(f, metav1.NamespaceAll, nil)
}

// InformerFor implements informers.SharedInformerFactory.
func (f waitingFactory) InformerFor(object runtime.Object, make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return waitingInformer{f.SharedInformerFactory.InformerFor(object, make)}
}

type waitingInformer struct{ cache.SharedIndexInformer }

// HasSynced implements cache.SharedInformer.
func (i waitingInformer) HasSynced() bool {
	select {
	case <-i.HasSyncedChecker().Done():
	case <-time.After(fillTimeout):
	}
	return i.SharedIndexInformer.HasSynced()
}
