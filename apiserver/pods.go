// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"

	"gatehouse.dev/internal/podcache"
)

// podsReadyPoll is how often to check whether the storage of pods is ready.
const podsReadyPoll = 20 * time.Millisecond

// A podSource feeds the server's own cache of pods from its storage. The cache has what the API
// serves, but the pods aren't encoded, sent and decoded on the way. Over HTTP that is most of the
// cost, and pods are the most numerous objects.
type podSource struct {
	storage podStorage
	known   chan struct{} // closed once there is a storage
}

type podStorage interface {
	rest.Lister
	rest.Watcher
	ReadinessCheck() error
}

func newPodSource() *podSource { return &podSource{known: make(chan struct{})} }

// serve begins to pass on the objects of storage. Earlier requests have waited for it.
func (p *podSource) serve(storage rest.Storage) error {
	pods, ok := storage.(podStorage)
	if !ok {
		return fmt.Errorf("the storage of pods, a %T, can't list, watch or tell whether it is ready", storage)
	}
	p.storage = pods
	close(p.known)
	return nil
}

// feed makes the pods of the factory those of the storage, of which whole says whether all is kept.
func (p *podSource) feed(factory informers.SharedInformerFactory, whole bool) error {
	keep := podcache.Trim
	if whole {
		keep = podcache.Whole
	}
	// The factory gives what is made for it its own transformation first.
	return factory.InformerFor(&corev1.Pod{}, p.informer).SetTransform(keep)
}

func (p *podSource) informer(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(listFirst{&cache.ListWatch{
		ListWithContextFunc: p.list, WatchFuncWithContext: p.watch, DisableChunking: true,
	}}, &corev1.Pod{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// listFirst makes an informer begin with a list, and not with a watch that sends all objects: a list has
// the watch cache's own objects, which are in memory once.
type listFirst struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by reflectors.
func (listFirst) IsWatchListSemanticsUnSupported() bool { return true }

// ready waits until the storage is.
func (p *podSource) ready(ctx context.Context) error {
	select {
	case <-p.known:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return wait.PollUntilContextCancel(ctx, podsReadyPoll, true, func(context.Context) (bool, error) {
		return p.storage.ReadinessCheck() == nil, nil
	})
}

func (p *podSource) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	wanted, err := p.options(ctx, options)
	if err != nil {
		return nil, err
	}
	list, err := p.storage.List(request.WithNamespace(ctx, metav1.NamespaceAll), wanted)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	return pods, legacyscheme.Scheme.Convert(list, pods, nil)
}

func (p *podSource) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	wanted, err := p.options(ctx, options)
	if err != nil {
		return nil, err
	}
	events, err := p.storage.Watch(request.WithNamespace(ctx, metav1.NamespaceAll), wanted)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		object := event.Object
		if shared, ok := object.(runtime.CacheableObject); ok {
			object = shared.GetObject()
		}
		if from, ok := object.(*core.Pod); ok {
			pod := &corev1.Pod{}
			if err := legacyscheme.Scheme.Convert(from, pod, nil); err != nil {
				return watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure,
					Message: err.Error()}}, true
			}
			object = pod
		}
		event.Object = object
		return event, true
	}), nil
}

// options returns a reflector's options in the form of a registry, once it is ready.
func (p *podSource) options(ctx context.Context, from metav1.ListOptions) (*internalversion.ListOptions, error) {
	to := &internalversion.ListOptions{}
	if err := internalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&from, to, nil); err != nil {
		return nil, err
	}
	return to, p.ready(ctx)
}
