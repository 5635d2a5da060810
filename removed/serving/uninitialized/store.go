// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// DefaultTimeout is how long a creation waits for the object to be initialized.
const DefaultTimeout = 30 * time.Second

// RESTOptions makes the stores of all kinds that delegate describes hide their uninitialized
// objects. A request that creates one waits for timeout at most. ready is closed once the server is
// ready.
func RESTOptions(delegate generic.RESTOptionsGetter, timeout time.Duration,
	ready <-chan struct{}) generic.RESTOptionsGetter {
	return restOptions{delegate, timeout, ready}
}

type restOptions struct {
	delegate generic.RESTOptionsGetter
	timeout  time.Duration
	ready    <-chan struct{}
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions,
	error) {
	options, err := o.delegate.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	decorated := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, resourcePrefix string,
		keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		getAttrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		below, destroy, err := decorated(config, resourcePrefix, keyFunc, newFunc, newListFunc, withState(getAttrs),
			triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		s := &store{below, config.GroupResource, newFunc, o.timeout}
		ctx, cancel := context.WithCancel(context.Background())
		go s.discardLeft(ctx, o.ready, resourcePrefix, newListFunc(), keyFunc, getAttrs)
		return s, func() {
			cancel()
			destroy()
		}, nil
	}
	return options, nil
}

// store is a kind's store without its hidden objects.
type store struct {
	storage.Interface
	resource  schema.GroupResource
	newObject func() runtime.Object
	timeout   time.Duration
}

// Get implements storage.Interface.
func (s *store) Get(ctx context.Context, key string, opts storage.GetOptions, object runtime.Object) error {
	if err := s.Interface.Get(ctx, key, opts, object); err != nil || !hidden(object) || requestFrom(ctx).includes() {
		return err
	}
	if err := runtime.SetZeroValue(object); err != nil || opts.IgnoreNotFound {
		return err
	}
	return storage.NewKeyNotFoundError(key, 0)
}

// GetList implements storage.Interface. With a limit, a list may be shorter than that and go on.
func (s *store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, opts, list); err != nil || requestFrom(ctx).includes() {
		return err
	}
	return removeHidden(list)
}

// Watch implements storage.Interface.
func (s *store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if !requestFrom(ctx).includes() {
		opts.Predicate.Field = fields.AndSelectors(opts.Predicate.Field, initialized)
		opts.Predicate.GetAttrs = withState(opts.Predicate.GetAttrs)
	}
	return s.Interface.Watch(ctx, key, opts)
}

// Create implements storage.Interface.
func (s *store) Create(ctx context.Context, key string, object, created runtime.Object, ttl uint64) error {
	err := s.Interface.Create(ctx, key, object, created, ttl)
	if storage.IsExist(err) && s.discardAt(ctx, key) {
		err = s.Interface.Create(ctx, key, object, created, ttl)
	}
	if err != nil || !hidden(object) {
		return err
	}
	if r := requestFrom(ctx); r.waits() && created != nil {
		return s.await(ctx, r, key, created)
	}
	return nil
}

// GuaranteedUpdate implements storage.Interface. It may create the object, as apply does.
func (s *store) GuaranteedUpdate(ctx context.Context, key string, object runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	r := requestFrom(ctx)
	if !r.waits() || !ignoreNotFound {
		if err := s.Interface.GuaranteedUpdate(ctx, key, object, ignoreNotFound, preconditions, update,
			cached); err != nil {
			return err
		}
		return s.discardDoomed(ctx, key, object)
	}
	creates := false
	watched := func(existing runtime.Object, response storage.ResponseMeta) (runtime.Object, *uint64, error) {
		creates = response.ResourceVersion == 0
		return update(existing, response)
	}
	if err := s.Interface.GuaranteedUpdate(ctx, key, object, ignoreNotFound, preconditions, watched,
		cached); err != nil {
		return err
	}
	if creates && hidden(object) {
		return s.await(ctx, r, key, object)
	}
	return s.discardDoomed(ctx, key, object)
}
