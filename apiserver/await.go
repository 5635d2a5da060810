// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strconv"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/plugin"
)

// cached returns objects of the types that informers have been asked for.
func (s *Server) cached() iter.Seq[runtime.Object] {
	return func(yield func(runtime.Object) bool) {
		stop := make(chan struct{})
		close(stop) // it is to list them, not to wait
		for kind := range s.informers.WaitForCacheSync(stop) {
			if object, ok := reflect.New(kind.Elem()).Interface().(runtime.Object); ok && !yield(object) {
				return
			}
		}
	}
}

// Await returns once the server's informers, by which plugins and authorizers decide, have an
// object as it was written, or as it was later, and quotas show what came of it, or once ctx ends,
// with its error.
func (s *Server) Await(ctx context.Context, written plugin.Written) error {
	if err := s.backend.Counted(ctx); err != nil {
		return err
	}
	for object := range s.cached() {
		if s.resourceOf(object) != written.Resource {
			continue
		}
		store := s.informers.InformerFor(object, nil).GetStore() // which is there
		if err := plugin.Until(ctx, func() bool { return written.In(store) }); err != nil {
			return err
		}
	}
	return nil
}

// AwaitStored returns once the server's informers, by which plugins and authorizers decide, show
// what is stored when it is called, and nothing that was deleted by then; or once ctx ends, with
// its error.
func (s *Server) AwaitStored(ctx context.Context) error {
	client, err := metadata.NewForConfig(s.loopback)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for object := range s.cached() {
		kind, ok := s.kindOf(object)
		if !ok {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		store := s.informers.InformerFor(object, nil).GetStore() // which is there
		group.Go(func() error {
			list, err := client.Resource(plural).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list of %s: %w", plural.Resource, err)
			}
			return plugin.Until(ctx, func() bool { return isCurrent(store, list) })
		})
	}
	return group.Wait()
}

// isCurrent reports whether a cache is at least as new as a list.
func isCurrent(store cache.Store, list *metav1.PartialObjectMetadataList) bool {
	listed := make(map[string]uint64, len(list.Items))
	for _, item := range list.Items {
		listed[cache.MetaObjectToName(&item).String()] = revisionOf(&item)
	}
	for _, object := range store.List() {
		has, err := meta.Accessor(object)
		if err != nil {
			return false
		}
		name := cache.MetaObjectToName(has).String()
		if at, ok := listed[name]; revisionOf(has) >= at && ok {
			delete(listed, name)
		} else if revisionOf(has) <= revisionOf(list) {
			return false // gone by then, or older than listed
		}
	}
	return len(listed) == 0
}

// revisionOf returns the revision of etcd at which an object was stored.
func revisionOf(object interface{ GetResourceVersion() string }) uint64 {
	number, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64) // as the server has made it
	return number
}

// resourceOf returns the resource of a built-in kind.
func (s *Server) resourceOf(object runtime.Object) schema.GroupResource {
	kind, ok := s.kindOf(object)
	if !ok {
		return schema.GroupResource{}
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.GroupResource()
}

// kindOf returns the kind of a built-in type.
func (s *Server) kindOf(object runtime.Object) (schema.GroupVersionKind, bool) {
	for _, known := range []*runtime.Scheme{scheme.Scheme, s.options.Former.Kinds().Scheme} {
		if kinds, _, err := known.ObjectKinds(object); err == nil {
			return kinds[0], true
		}
	}
	return schema.GroupVersionKind{}, false
}
