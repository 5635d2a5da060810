// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// Compiled holds a value that is made from all objects of a cache, such as an index of their parsed
// selectors. Get makes the value when it is first called, and again if the cache has changed since.
type Compiled[T any] struct {
	compile func(objects []any) T
	indexer cache.Indexer
	changes atomic.Uint64 // how often the cache has changed
	current atomic.Pointer[result[T]]
}

// result is a value made from the cache after that number of changes, or later.
type result[T any] struct {
	changes uint64
	value   T
}

// Compile returns a Compiled whose value compile makes from the informer's objects. The objects are
// in no order, and compile must not change them. Several requests may call compile at once. The
// informer must not have been started.
func Compile[T any](informer cache.SharedIndexInformer, compile func(objects []any) T) (*Compiled[T], error) {
	c := &Compiled[T]{compile: compile, indexer: informer.GetIndexer()}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.changes.Add(1) },
		UpdateFunc: func(any, any) { c.changes.Add(1) },
		DeleteFunc: func(any) { c.changes.Add(1) },
	})
	return c, err
}

// Get returns the value for the cache's present objects.
func (c *Compiled[T]) Get() T {
	// Read the number first: if the cache changes meanwhile, the next call makes the value again.
	changes := c.changes.Load()
	if r := c.current.Load(); r != nil && r.changes == changes {
		return r.value
	}
	r := &result[T]{changes, c.compile(c.indexer.List())}
	c.current.Store(r)
	return r.value
}
