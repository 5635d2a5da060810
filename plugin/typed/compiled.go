package typed

import (
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// Compiled is something that is made of all objects of a cache, such as an index of their parsed
// selectors. It is made when it is asked for, and made again when it is asked for after a change.
type Compiled[T any] struct {
	compile func(objects []any) T
	indexer cache.Indexer
	changes atomic.Uint64 // how often the cache has changed
	current atomic.Pointer[result[T]]
}

// result is what was made of the objects that the cache had after so many changes, or later.
type result[T any] struct {
	changes uint64
	made    T
}

// Compile is what compile makes of the informer's objects, which are in no order and not to be
// changed. The informer must not have been started. compile may be called by several requests at
// once.
func Compile[T any](informer cache.SharedIndexInformer, compile func(objects []any) T) (*Compiled[T], error) {
	c := &Compiled[T]{compile: compile, indexer: informer.GetIndexer()}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.changes.Add(1) },
		UpdateFunc: func(any, any) { c.changes.Add(1) },
		DeleteFunc: func(any) { c.changes.Add(1) },
	})
	return c, err
}

// Get is what there is now.
func (c *Compiled[T]) Get() T {
	// Counted first: what changes while it is being made is seen by the next who asks.
	changes := c.changes.Load()
	if r := c.current.Load(); r != nil && r.changes == changes {
		return r.made
	}
	r := &result[T]{changes, c.compile(c.indexer.List())}
	c.current.Store(r)
	return r.made
}
