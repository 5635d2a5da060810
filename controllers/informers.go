// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"runtime/debug"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/core"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// ownInformers gives one controller its view of the shared informers. It holds back event handlers
// until the controller is built. Upstream's constructors add handlers before they set the fields
// that these read, and an informer that already runs calls a handler at once. Here informers may
// run by then: the cache of pods is the server's, and a controller that couldn't be built is built
// again later.
//
// A handler that panics loses its event. It ends neither the handler nor the process. Once the
// controller has ended, its handlers are removed from informers that go on.
type ownInformers struct {
	controller string
	factory    informers.SharedInformerFactory
	// indexing is held while indexes of any informer are read or added, because controllers are
	// built concurrently.
	indexing *sync.Mutex

	mu            sync.Mutex
	built         bool
	registrations []*registration
}

// release adds the handlers that were held back. Later handlers are added at once.
func (o *ownInformers) release() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.registrations {
		if err := r.add(); err != nil {
			return err
		}
	}
	o.built = true
	return nil
}

// remove removes all handlers from the informers.
func (o *ownInformers) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.registrations {
		if err := r.remove(); err != nil {
			klog.ErrorS(err, "Removing an event handler", "controller", o.controller)
		}
	}
	o.registrations = nil
}

// informer returns a shared informer as the controller sees it.
func (o *ownInformers) informer(shared cache.SharedIndexInformer) cache.SharedIndexInformer {
	return ownInformer{shared, o}
}

// Start implements internalinterfaces.SharedInformerFactory. Informers are started by keep.
func (o *ownInformers) Start(<-chan struct{}) {}

// InformerFor implements internalinterfaces.SharedInformerFactory.
func (o *ownInformers) InformerFor(object runtime.Object,
	build internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return o.informer(o.factory.InformerFor(object, build))
}

// InformerName implements internalinterfaces.SharedInformerFactory.
func (o *ownInformers) InformerName() *cache.InformerName { return o.factory.InformerName() }

// Admissionregistration and the methods below return the informers of an API group. Controllers can
// have no others.
func (o *ownInformers) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(o, metav1.NamespaceAll, nil)
}

func (o *ownInformers) Apps() apps.Interface { return apps.New(o, metav1.NamespaceAll, nil) }

func (o *ownInformers) Batch() batch.Interface { return batch.New(o, metav1.NamespaceAll, nil) }

func (o *ownInformers) Core() core.Interface { return core.New(o, metav1.NamespaceAll, nil) }

func (o *ownInformers) Discovery() discovery.Interface {
	return discovery.New(o, metav1.NamespaceAll, nil)
}

func (o *ownInformers) Policy() policy.Interface { return policy.New(o, metav1.NamespaceAll, nil) }

func (o *ownInformers) Rbac() rbac.Interface { return rbac.New(o, metav1.NamespaceAll, nil) }

func (o *ownInformers) Resource() resource.Interface {
	return resource.New(o, metav1.NamespaceAll, nil)
}

func (o *ownInformers) Scheduling() scheduling.Interface {
	return scheduling.New(o, metav1.NamespaceAll, nil)
}

func (o *ownInformers) Storage() storage.Interface { return storage.New(o, metav1.NamespaceAll, nil) }

// ownPods gives the controller its view of a cache of pods that isn't the factory's.
type ownPods struct {
	corev1informers.PodInformer
	own *ownInformers
}

// Informer implements corev1informers.PodInformer.
func (p ownPods) Informer() cache.SharedIndexInformer {
	return p.own.informer(p.PodInformer.Informer())
}

type ownInformer struct {
	cache.SharedIndexInformer
	own *ownInformers
}

// AddEventHandler implements cache.SharedInformer.
func (i ownInformer) AddEventHandler(handler cache.ResourceEventHandler) (
	cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i ownInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i ownInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler,
	options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	o := i.own
	r := &registration{informer: i.SharedIndexInformer, options: options,
		handler: guardedHandler{handler, o.controller}}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.built {
		if err := r.add(); err != nil {
			return nil, err
		}
	}
	o.registrations = append(o.registrations, r)
	return r, nil
}

// AddIndexers implements cache.SharedIndexInformer.
func (i ownInformer) AddIndexers(indexers cache.Indexers) error {
	return i.own.addIndexes(i.SharedIndexInformer.AddIndexers, i.SharedIndexInformer.GetIndexer(), indexers)
}

// GetIndexer implements cache.SharedIndexInformer.
func (i ownInformer) GetIndexer() cache.Indexer {
	return ownIndexer{i.SharedIndexInformer.GetIndexer(), i.own}
}

type ownIndexer struct {
	cache.Indexer
	own *ownInformers
}

// GetIndexers implements cache.Indexer.
func (i ownIndexer) GetIndexers() cache.Indexers {
	i.own.indexing.Lock()
	defer i.own.indexing.Unlock()
	return maps.Clone(i.Indexer.GetIndexers())
}

// AddIndexers implements cache.Indexer.
func (i ownIndexer) AddIndexers(indexers cache.Indexers) error {
	return i.own.addIndexes(i.Indexer.AddIndexers, i.Indexer, indexers)
}

// addIndexes adds the indexes of those names that aren't there yet. Some may be: another controller
// has the same, or the controller is built for the second time.
func (o *ownInformers) addIndexes(add func(cache.Indexers) error, to cache.Indexer, wanted cache.Indexers) error {
	o.indexing.Lock()
	defer o.indexing.Unlock()
	missing := maps.Clone(wanted)
	for name := range to.GetIndexers() {
		delete(missing, name)
	}
	if len(missing) == 0 {
		return nil
	}
	return add(missing)
}

// registration is an event handler that is added to its informer now or later.
type registration struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
	options  cache.HandlerOptions

	mu     sync.Mutex
	handle cache.ResourceEventHandlerRegistration // nil while the handler is held back
}

func (r *registration) add() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle, err = r.informer.AddEventHandlerWithOptions(r.handler, r.options)
	return err
}

func (r *registration) remove() error {
	handle := r.added()
	if handle == nil {
		return nil
	}
	return r.informer.RemoveEventHandler(handle)
}

func (r *registration) added() cache.ResourceEventHandlerRegistration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool {
	handle := r.added()
	return handle != nil && handle.HasSynced()
}

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return syncedChecker{r} }

type syncedChecker struct{ registration *registration }

// Name implements cache.DoneChecker.
func (c syncedChecker) Name() string {
	return c.registration.informer.HasSyncedChecker().Name() + " handler"
}

// Done implements cache.DoneChecker, for the time after the controller was built.
func (c syncedChecker) Done() <-chan struct{} {
	handle := c.registration.added()
	if handle == nil {
		return nil
	}
	return handle.HasSyncedChecker().Done()
}

// guardedHandler is a controller's event handler that may panic.
type guardedHandler struct {
	cache.ResourceEventHandler
	controller string
}

// OnAdd implements cache.ResourceEventHandler.
func (h guardedHandler) OnAdd(object any, isInInitialList bool) {
	defer h.survive(object)
	h.ResourceEventHandler.OnAdd(object, isInInitialList)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h guardedHandler) OnUpdate(old, object any) {
	defer h.survive(object)
	h.ResourceEventHandler.OnUpdate(old, object)
}

// OnDelete implements cache.ResourceEventHandler.
func (h guardedHandler) OnDelete(object any) {
	defer h.survive(object)
	h.ResourceEventHandler.OnDelete(object)
}

// survive ends a panic. It is to be deferred.
func (h guardedHandler) survive(object any) {
	if r := recover(); r != nil {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		if err != nil {
			key = "?"
		}
		klog.ErrorS(nil, "Controller's event handler panicked, and has lost the event", "controller", h.controller,
			"object", key, "panic", r, "stack", string(debug.Stack()))
	}
}
