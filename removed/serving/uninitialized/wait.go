// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// watchRetry is how long after a watch that failed the next one begins. A custom resource's watch
// cache needs a moment when its kind is new.
const watchRetry = 100 * time.Millisecond

// await waits until the object at key, as it was just created, is initialized, and sets object to what
// it is then. An error says that an initializer failed. Any other failure is no error of the creation,
// but becomes r's answer.
//
// Source: WaitForInitialized in k8s.io/apiserver/pkg/registry/generic/registry/store.go of
// Kubernetes 1.13.
func (s *store) await(asking context.Context, r *request, key string, object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	name, uid, version := accessor.GetName(), accessor.GetUID(), accessor.GetResourceVersion()
	// The request's values stay behind: the watch cache takes from them what the request is about,
	// and that isn't this object alone.
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	defer context.AfterFunc(asking, cancel)()
	for {
		latest, err := s.follow(ctx, key, version)
		for err != nil && ctx.Err() == nil {
			// The watch couldn't begin, or broke off.
			select {
			case <-ctx.Done():
			case <-time.After(watchRetry):
			}
			latest, err = s.current(ctx, key, uid)
		}
		switch {
		case ctx.Err() != nil:
			r.answerWith(apierrors.NewTimeoutError(fmt.Sprintf("server has timed out waiting for the initialization "+
				"of %s %s", s.resource, name), 0))
			return nil
		case latest == nil:
			r.answerWith(apierrors.NewInternalError(errors.New("object deleted while waiting for creation")))
			return nil
		case failure(latest) != "":
			return apierrors.NewForbidden(s.resource, name, errors.New(failure(latest)))
		case hidden(latest):
			if accessor, err := meta.Accessor(latest); err == nil {
				version = accessor.GetResourceVersion()
			}
		default:
			reflect.ValueOf(object).Elem().Set(reflect.ValueOf(latest).Elem())
			return nil
		}
	}
}

// current returns the object at key as it is now, or nil if it was deleted.
func (s *store) current(ctx context.Context, key string, uid types.UID) (runtime.Object, error) {
	latest := s.newObject()
	if err := s.Interface.Get(ctx, key, storage.GetOptions{}, latest); storage.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(latest)
	if err != nil || accessor.GetUID() != uid {
		return nil, err
	}
	return latest, nil
}

// follow watches the object at key, from a resource version on, until it is initialized or has failed,
// and returns it. It returns nil if the object was deleted.
func (s *store) follow(ctx context.Context, key, resourceVersion string) (runtime.Object, error) {
	w, err := s.Interface.Watch(ctx, key,
		storage.ListOptions{ResourceVersion: resourceVersion, Predicate: storage.Everything})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case event, ok := <-w.ResultChan():
			if !ok {
				return nil, errors.New("the watch ended")
			}
			switch event.Type {
			case watch.Error:
				return nil, apierrors.FromObject(event.Object)
			case watch.Added, watch.Modified, watch.Deleted:
			default:
				continue
			}
			// The object is the watch cache's.
			latest := event.Object
			if cached, ok := latest.(runtime.CacheableObject); ok {
				latest = cached.GetObject()
			} else {
				latest = latest.DeepCopyObject()
			}
			switch {
			case failure(latest) != "":
				return latest, nil
			case event.Type == watch.Deleted:
				return nil, nil
			case !hidden(latest):
				return latest, nil
			}
		}
	}
}
