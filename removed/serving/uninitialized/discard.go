// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

const (
	// discardTimeout bounds the removal of a doomed object, which goes on when its request has
	// ended.
	discardTimeout = 10 * time.Second

	// readyRetry is how often a new store is asked whether it is ready.
	readyRetry = 100 * time.Millisecond
)

// discardDoomed removes a hidden object whose stored update says that it must go. The update is stored
// first, so that requests that wait for the object get to know the reason.
func (s *store) discardDoomed(ctx context.Context, key string, object runtime.Object) error {
	if !hidden(object) || !mustGo(object) {
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	uid := accessor.GetUID()
	err = s.Interface.Delete(ctx, key, s.newObject(), &storage.Preconditions{UID: &uid}, rest.ValidateAllObjectFunc,
		nil, storage.DeleteOptions{})
	if storage.IsNotFound(err) {
		return nil // somebody else has done it
	}
	return err
}

// discardAt removes a doomed object that is in a creation's way, and reports whether there was one.
func (s *store) discardAt(ctx context.Context, key string) bool {
	object := s.newObject()
	if err := s.Interface.Get(ctx, key, storage.GetOptions{}, object); err != nil || !hidden(object) ||
		!mustGo(object) {
		return false
	}
	return s.discardDoomed(ctx, key, object) == nil
}

// discardLeft removes the doomed objects that were left by a server that was killed between an update and
// the removal.
//
// It waits until the server is ready. A write while watch caches begin makes them wait for each
// other: those that have begun before must hear from etcd that nothing of theirs has changed, which
// etcd doesn't say on a connection with a watch that begins after the latest write. Then it waits
// for the store, which may be that of a new custom resource, so as not to read from etcd what the
// watch cache is about to read.
func (s *store) discardLeft(ctx context.Context, ready <-chan struct{}, prefix string, list runtime.Object,
	key func(runtime.Object) (string, error), attributes storage.AttrFunc) {
	select {
	case <-ctx.Done():
		return
	case <-ready:
	}
	for s.ReadinessCheck() != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(readyRetry):
		}
	}
	err := s.Interface.GetList(ctx, prefix,
		storage.ListOptions{ResourceVersion: "0", Recursive: true, Predicate: storage.SelectionPredicate{
			Label: labels.Everything(), Field: fields.OneTermEqualSelector(stateField, pending),
			GetAttrs: withState(attributes),
		}}, list)
	if err == nil {
		err = meta.EachListItem(list, func(object runtime.Object) error {
			at, err := key(object)
			if err != nil {
				return err
			}
			return s.discardDoomed(ctx, at, object)
		})
	}
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Removing what initializers have failed", "resource", s.resource)
	}
}
