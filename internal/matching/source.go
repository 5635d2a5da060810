// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/plugin"
)

// Object is a configuration as informers and files hold it: a pointer to an object that never
// changes.
type Object interface {
	comparable
	metav1.Object
}

// A Collection holds the compiled form of all configurations of one kind. It is for one goroutine.
type Collection[T Object, C any] struct {
	compile func(object T, static bool, before C) C
	objects map[collectionKey]compiledObject[T, C]
}

// collectionKey identifies an object. One of the API may have the same name as one from a file.
type collectionKey struct {
	name   string
	static bool
}

type compiledObject[T Object, C any] struct {
	object T
	result C
}

// NewCollection returns an empty Collection. compile returns the compiled form of an object. static
// reports whether the object is from a file. before is the compiled form of the object before it
// changed, so that compile can reuse parts; it is the zero value for a new object.
func NewCollection[T Object, C any](compile func(object T, static bool, before C) C) *Collection[T, C] {
	return &Collection[T, C]{compile: compile}
}

// Refresh compiles the objects that are new or have changed, drops those that are gone, and returns
// the compiled form of all: first those from files, then those of the API, each group in the order
// of their names.
func (c *Collection[T, C]) Refresh(fromFiles, fromAPI []T) []C {
	known := make(map[collectionKey]compiledObject[T, C], len(fromFiles)+len(fromAPI))
	all := make([]C, 0, len(fromFiles)+len(fromAPI))
	add := func(objects []T, static bool) {
		byName := func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) }
		for _, object := range slices.SortedFunc(slices.Values(objects), byName) {
			key := collectionKey{object.GetName(), static}
			k := c.objects[key]
			if k.object != object {
				k = compiledObject[T, C]{object, c.compile(object, static, k.result)}
			}
			known[key] = k
			all = append(all, k.result)
		}
	}
	add(fromFiles, true)
	add(fromAPI, false)
	c.objects = known
	return all
}

// A Source keeps a snapshot up to date. A snapshot must never change. A request reads the pointer
// once and keeps it.
type Source[S any] struct {
	build   func() *S
	current atomic.Pointer[S]
	changed chan struct{}
	caches  []<-chan struct{}
	synced  chan struct{}
	stores  map[schema.GroupResource]cache.Store
	// unfollow removes the source's handlers from the informers.
	unfollow []func()
	// started counts the snapshots that have been started, finished is the number of the last
	// finished one.
	started, finished atomic.Int64
}

// NewSource returns a source with the first snapshot from build. That one has configurations from
// files only, since the informers have nothing yet. build is called again, by one goroutine at a
// time, whenever something may have changed. If build returns nil, nothing has changed, and the
// snapshot stays, with its index.
func NewSource[S any](build func() *S) *Source[S] {
	s := &Source[S]{build: build, changed: make(chan struct{}, 1), synced: make(chan struct{}),
		stores: map[schema.GroupResource]cache.Store{}}
	s.refresh()
	return s
}

// Current returns the snapshot in force.
func (s *Source[S]) Current() *S { return s.current.Load() }

// Synced returns a channel that is closed once the snapshot holds everything that the API had at
// the start. Requests wait for it with a ready.Gate.
func (s *Source[S]) Synced() <-chan struct{} { return s.synced }

// Notify requests a new snapshot. If several changes arrive while one is being made, or during the
// rest after it, they share the next.
func (s *Source[S]) Notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Follow requests a new snapshot whenever the informer of a resource has something new. Call it at
// least once, before Run.
func (s *Source[S]) Follow(resource schema.GroupResource, informer cache.SharedIndexInformer) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.Notify() },
		UpdateFunc: func(any, any) { s.Notify() },
		DeleteFunc: func(any) { s.Notify() },
	})
	if err != nil {
		return err
	}
	s.unfollow = append(s.unfollow, func() {
		// The only error is that the informer has stopped, and so has no handlers.
		_ = informer.RemoveEventHandler(registration)
	})
	s.caches = append(s.caches, registration.HasSyncedChecker().Done())
	s.stores[resource] = informer.GetStore()
	return nil
}

// Await returns once the snapshot holds a followed object as it was written, or a later version of
// it. If ctx ends before, it returns ctx's error.
func (s *Source[S]) Await(ctx context.Context, written plugin.Written) error {
	if !written.Resource.Empty() {
		store := s.stores[written.Resource]
		if store == nil {
			return nil
		}
		if err := plugin.Until(ctx, func() bool { return written.In(store) }); err != nil {
			return err
		}
	}
	begun := s.started.Load()
	s.Notify()
	return plugin.Until(ctx, func() bool { return s.finished.Load() > begun })
}

// Making a snapshot looks at every configuration. If each change in a burst made one, the cost
// would be the number of changes times the number of configurations. So at most a tenth of the time
// is spent on snapshots: after one, the source rests for restFactor times as long as it took, a
// millisecond or so with a hundred configurations, but for maxRest at most.
const (
	restFactor = 9
	maxRest    = time.Second
)

// Run makes snapshots until done is closed. Then it removes the source's handlers from the
// informers.
func (s *Source[S]) Run(done <-chan struct{}) {
	defer func() {
		for _, unfollow := range s.unfollow {
			unfollow()
		}
	}()
	waiting := s.caches
	changed, rested := s.changed, (<-chan time.Time)(nil)
	for {
		var next <-chan struct{} // nil, which blocks, once all caches are full
		if len(waiting) > 0 {
			next = waiting[0]
		}
		select {
		case <-next:
			if waiting = waiting[1:]; len(waiting) == 0 {
				s.refresh()
				close(s.synced)
			}
		case <-changed:
			begin := time.Now()
			s.refresh()
			changed, rested = nil, time.After(min(restFactor*time.Since(begin), maxRest))
		case <-rested:
			changed = s.changed
		case <-done:
			return
		}
	}
}

func (s *Source[S]) refresh() {
	defer s.finished.Store(s.started.Add(1))
	if snapshot := s.build(); snapshot != nil {
		s.current.Store(snapshot)
	}
}
