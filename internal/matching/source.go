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

// Object is what informers and files have: a pointer to a configuration that nobody changes.
type Object interface {
	comparable
	metav1.Object
}

// A Collection keeps what was compiled of all configurations of one kind. It is for one goroutine.
type Collection[T Object, C any] struct {
	compile func(object T, static bool, before C) C
	known   map[collectionKey]compiled[T, C]
}

// collectionKey tells an object of the API from one of files, should they have the same name.
type collectionKey struct {
	name   string
	static bool
}

type compiled[T Object, C any] struct {
	object T
	result C
}

// NewCollection returns an empty one. compile makes of an object what requests need; static says
// that the object is from a file, and before is what was made of the object until it changed, C's
// zero value for a new one: what is still good can be taken over.
func NewCollection[T Object, C any](compile func(object T, static bool, before C) C) *Collection[T, C] {
	return &Collection[T, C]{compile: compile}
}

// Refresh compiles what is new or has changed, forgets what is gone, and returns what was made of
// all objects: those from files first, then those of the API, each in order of their names.
func (c *Collection[T, C]) Refresh(fromFiles, fromAPI []T) []C {
	known := make(map[collectionKey]compiled[T, C], len(fromFiles)+len(fromAPI))
	all := make([]C, 0, len(fromFiles)+len(fromAPI))
	add := func(objects []T, static bool) {
		byName := func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) }
		for _, object := range slices.SortedFunc(slices.Values(objects), byName) {
			key := collectionKey{object.GetName(), static}
			k := c.known[key]
			if k.object != object {
				k = compiled[T, C]{object, c.compile(object, static, k.result)}
			}
			known[key] = k
			all = append(all, k.result)
		}
	}
	add(fromFiles, true)
	add(fromAPI, false)
	c.known = known
	return all
}

// A Source keeps a snapshot up to date. A snapshot must never change; requests read the pointer to
// it and keep that.
type Source[S any] struct {
	build   func() *S
	current atomic.Pointer[S]
	changed chan struct{}
	caches  []<-chan struct{}
	synced  chan struct{}
	stores  map[schema.GroupResource]cache.Store
	// unfollow has the informers forget the source.
	unfollow []func()
	// begun counts the snapshots, made has the last one that is there.
	begun, made atomic.Int64
}

// NewSource returns a source with the first snapshot that build returns: one of files, since no
// informer has anything yet. build is called again, by one goroutine at a time, whenever something
// may have changed; nil says that nothing has, and keeps the snapshot with its index.
func NewSource[S any](build func() *S) *Source[S] {
	s := &Source[S]{build: build, changed: make(chan struct{}, 1), synced: make(chan struct{}),
		stores: map[schema.GroupResource]cache.Store{}}
	s.refresh()
	return s
}

// Current is the snapshot in force.
func (s *Source[S]) Current() *S { return s.current.Load() }

// Synced is closed once the snapshot has everything that the API had at the start; requests wait
// for that with a ready.Gate.
func (s *Source[S]) Synced() <-chan struct{} { return s.synced }

// Notify has a new snapshot made. Changes that come while one is being made, or before it is time
// for another, are in the next, together.
func (s *Source[S]) Notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Follow has a new snapshot made whenever the informer of a resource has something new. It is
// called before Run, at least once.
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
		// An informer that has ended has forgotten it, which is the only error.
		_ = informer.RemoveEventHandler(registration)
	})
	s.caches = append(s.caches, registration.HasSyncedChecker().Done())
	s.stores[resource] = informer.GetStore()
	return nil
}

// Await returns once an object that the source follows is in the snapshot as it was written, or as
// it was later, or once ctx ends, with its error.
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
	begun := s.begun.Load()
	s.Notify()
	return plugin.Until(ctx, func() bool { return s.made.Load() > begun })
}

// What a burst of changes costs must grow with their number, and not with that times how many
// configurations there are, each of which is looked at for a snapshot. So it is only a tenth of the
// time that snapshots are being made: the next one isn't begun before restFactor times as long as
// the last one took, a millisecond or so with a hundred configurations, or maxRest after it.
const (
	restFactor = 9
	maxRest    = time.Second
)

// Run makes snapshots until done is closed. Informers that others use forget the source then.
func (s *Source[S]) Run(done <-chan struct{}) {
	defer func() {
		for _, unfollow := range s.unfollow {
			unfollow()
		}
	}()
	waiting := s.caches
	changed, rested := s.changed, (<-chan time.Time)(nil)
	for {
		var next <-chan struct{} // nil once all caches are full, and nothing comes from that
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
	defer s.made.Store(s.begun.Add(1))
	if snapshot := s.build(); snapshot != nil {
		s.current.Store(snapshot)
	}
}
