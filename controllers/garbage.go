// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// garbageCollection deletes objects whose owners are gone.
func garbageCollection(ctx context.Context, e *environment) (func(context.Context), error) {
	client, objects, err := e.clients("generic-garbage-collector")
	if err != nil {
		return nil, err
	}
	started := make(chan struct{}) // there are none that others have a part in
	close(started)
	mapper := newMapper(client)
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, objects, mapper,
		garbagecollector.DefaultIgnoredResources(), kindInformers{objects, e.options.Pods}, started)
	c, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, mapper, graph)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, garbageWorkers, garbageSync) })
		running.Go(func() { c.Sync(ctx, &garbageKinds{ServerResourcesInterface: client.Discovery()}, garbageSync) })
		running.Wait()
	}, nil
}

// garbageKinds lists the kinds that the garbage collector looks after. Upstream's list logs
// nothing, and collects nothing, if the controller may not read discovery; this one logs the error.
type garbageKinds struct {
	discovery.ServerResourcesInterface
	lastError string // that of the last call
}

// ServerPreferredResources implements discovery.ServerResourcesInterface, for one caller at a time.
func (k *garbageKinds) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	found, err := k.ServerResourcesInterface.ServerPreferredResources()
	if len(found) > 0 {
		k.lastError = ""
		return found, err
	}
	if reason := discoveryError(err); reason.Error() != k.lastError {
		k.lastError = reason.Error()
		logCannotWork(names.GarbageCollectorController, reason)
	}
	return found, err
}

// discoveryError returns the reason why a server's kinds aren't known.
func discoveryError(err error) error {
	switch {
	case err == nil:
		err = errors.New("it serves none")
	case apierrors.IsForbidden(err): // the client hasn't read by whom, nor what
		err = errors.New("forbidden: the controller's user must be allowed to get /api, /apis and what is below " +
			"them, which is what the ClusterRole system:discovery allows")
	}
	return fmt.Errorf("discovering the kinds that the server has: %w", err)
}

// kindInformers is an informerfactory.InformerFactory of objects' metadata. It makes a new informer
// each time, which runs as long as the garbage collector looks after the kind. Those of
// kube-controller-manager run on after a custom resource is gone, and request it forever. They are
// also shared with other controllers, which here don't see objects that wait for initializers, and
// hold much less than all kinds.
//
// For pods, the most numerous kind, it uses the server's cache, if that has all of them.
type kindInformers struct {
	client metadata.Interface
	pods   corev1informers.PodInformer // nil for none
}

// ForResource implements informerfactory.InformerFactory.
func (f kindInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if f.pods != nil && resource == corev1.SchemeGroupVersion.WithResource("pods") {
		return kindInformer{nil, f.pods.Informer()}, nil // nobody asks for its lister
	}
	generic := metadatainformer.NewFilteredMetadataInformer(f.client, resource, metav1.NamespaceAll, informerResync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	return kindInformer{generic, runInformer{generic.Informer()}}, generic.Informer().SetWatchErrorHandlerWithContext(
		func(ctx context.Context, r *cache.Reflector, err error) {
			// Between a kind's end and the next look at what kinds there are, there is nothing to
			// say.
			if apierrors.IsNotFound(err) {
				klog.FromContext(ctx).V(2).Info("A kind is gone", "resource", resource)
				return
			}
			cache.DefaultWatchErrorHandler(ctx, r, err)
		})
}

// Start implements informerfactory.InformerFactory: an informer is started by its own controller.
func (kindInformers) Start(<-chan struct{}) {}

type kindInformer struct {
	informers.GenericInformer
	informer cache.SharedIndexInformer
}

// Informer implements informers.GenericInformer.
func (i kindInformer) Informer() cache.SharedIndexInformer { return i.informer }

// runInformer is an informer that can be run through its controller.
type runInformer struct{ cache.SharedIndexInformer }

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i runInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(
		guardedHandler{handler, names.GarbageCollectorController}, resync)
}

// GetController implements cache.SharedIndexInformer.
func (i runInformer) GetController() cache.Controller {
	return informerController{i.SharedIndexInformer.GetController(), i.SharedIndexInformer}
}

type informerController struct {
	cache.Controller
	informer cache.SharedIndexInformer
}

// Run implements cache.Controller.
func (c informerController) Run(stop <-chan struct{}) { c.informer.Run(stop) }

// RunWithContext implements cache.Controller.
func (c informerController) RunWithContext(ctx context.Context) { c.informer.RunWithContext(ctx) }
