// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	podindex "k8s.io/kubernetes/pkg/controller"
)

// startPods returns a client and a cache of its pods that runs until the test ends, as the server's
// does.
func startPods(t *testing.T, names ...string) (kubernetes.Interface, corev1informers.PodInformer) {
	client := fake.NewClientset()
	for _, name := range names {
		if err := client.Tracker().Add(podIn("demo", name)); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	pods.Informer()
	ctx, stop := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() { stop(); factory.Shutdown() })
	return client, pods
}

// heard is what event handlers were told.
type heard struct {
	mu    sync.Mutex
	names []string
}

func (h *heard) add(object any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = append(h.names, object.(*corev1.Pod).Name)
}

// take returns the names of the pods since the last call, in alphabetical order.
func (h *heard) take() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.names
	h.names = nil
	slices.Sort(names)
	return names
}

// A handler is called once its controller is built, though the informer has been running before,
// and no more once the controller has ended. The next term, as after a lost lease, is like the
// first, though the indexes are there. A handler that panics goes on with the next event.
func TestHandlersOfOneTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, pods := startPods(t, "bad", "good")
		var told heard
		builds := 0
		c := controller{"test", func(_ context.Context, e *environment) (func(context.Context), error) {
			informer := e.pods().Informer()
			registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
				if object.(*corev1.Pod).Name == "bad" {
					panic("it is bad")
				}
				told.add(object)
			}})
			index := func(name string) cache.Indexers {
				return cache.Indexers{name: func(any) ([]string, error) { return []string{"all"}, nil }}
			}
			err = errors.Join(err, informer.AddIndexers(index("one")), informer.GetIndexer().AddIndexers(index("two")),
				podindex.AddPodNodeNameIndexer(informer))
			if names := told.take(); len(names) > 0 || registration.HasSynced() {
				t.Errorf("while the controller is built, its handler is told of %q, synced: %v", names,
					registration.HasSynced())
			}
			if builds++; builds == 1 {
				err = errors.Join(err, errors.New("it can't be built yet"))
			} else if builds == 2 {
				panic("it is built wrongly")
			}
			return func(ctx context.Context) {
				if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
					t.Error("the handler isn't synced")
				}
				<-registration.HasSyncedChecker().Done()
				<-ctx.Done()
			}, err
		}}
		add := func(name string) {
			t.Helper()
			if _, err := client.CoreV1().Pods("demo").Create(t.Context(), podIn("demo", name),
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(want ...string) {
			t.Helper()
			if got := told.take(); !slices.Equal(got, want) {
				t.Errorf("the handler was told of %q, want %q", got, want)
			}
		}
		term := func() (end func()) {
			ctx, stop := context.WithCancel(t.Context())
			shared := &shared{options: Options{Pods: pods}, informers: informers.NewSharedInformerFactory(client, 0)}
			var running sync.WaitGroup
			running.Go(func() { shared.keep(ctx, ctx, c) })
			time.Sleep(time.Minute) // on the bubble's clock: what can't be built is built again
			return func() { stop(); running.Wait() }
		}
		end := term()
		expect("good")
		add("new")
		expect("new")
		end()
		add("unheard")
		expect()
		end = term()
		expect("good", "new", "unheard")
		end()
		if builds != 4 {
			t.Errorf("built %d times, want 3 in the first term and 1 in the next", builds)
		}
	})
}

// recordedPods calls added when an event handler is added to the cache.
type recordedPods struct {
	corev1informers.PodInformer
	added func()
}

func (p recordedPods) Informer() cache.SharedIndexInformer {
	return recordedInformer{p.PodInformer.Informer(), p.added}
}

type recordedInformer struct {
	cache.SharedIndexInformer
	added func()
}

func (i recordedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler,
	options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.added()
	return i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
}

// Kubernetes' own controllers of workloads add handlers before they set what these read. The cache
// of pods, which runs, has none before the controller is built, in the second term as in the first.
func TestWorkloadsOnRunningPods(t *testing.T) {
	client, pods := startPods(t, "a", "b")
	for range 2 {
		for _, c := range workloads {
			building := true
			recorded := recordedPods{pods, func() {
				if building {
					t.Errorf("%s: a handler is added while the controller is built", c.name)
				}
			}}
			build := c.build
			c.build = func(ctx context.Context, e *environment) (func(context.Context), error) {
				_, err := build(ctx, e)
				building = false
				return func(context.Context) {}, err
			}
			shared := &shared{config: &rest.Config{Host: "127.0.0.1:1"}, options: Options{Pods: recorded},
				informers: informers.NewSharedInformerFactory(client, 0)}
			ctx, stop := context.WithCancel(t.Context())
			if err := shared.runOnce(ctx, ctx, c); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			stop()
			shared.informers.Shutdown()
		}
	}
}
