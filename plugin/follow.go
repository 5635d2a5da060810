// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Written identifies an object of the API as it was last written. A Written without a Resource
// stands for everything that the host's informers have.
type Written struct {
	Resource schema.GroupResource
	// Namespace is empty for an object without one.
	Namespace, Name string
	// ResourceVersion is that of the write; empty if the object is gone.
	ResourceVersion string
}

// A Follower is a plugin that keeps objects of the API in a form or a cache of its own, which is up
// to date a moment after a write. The host's informers don't count.
type Follower interface {
	// Await returns when the plugin uses the object as it was written, or a later version of it. It
	// returns ctx's error if ctx ends before. It returns at once if the plugin doesn't follow the
	// resource.
	Await(ctx context.Context, written Written) error
}

// awaitPoll is the interval at which Until polls.
const awaitPoll = time.Millisecond

// Until waits until done returns true. It returns ctx's error if ctx ends before. Followers use it
// to wait.
func Until(ctx context.Context, done func() bool) error {
	if done() {
		return ctx.Err()
	}
	poll := time.NewTicker(awaitPoll)
	defer poll.Stop()
	for !done() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// In reports whether an informer's store has the object as it was written, or a later version.
func (w Written) In(store cache.Store) bool {
	found, ok, err := store.GetByKey(cache.NewObjectName(w.Namespace, w.Name).String())
	if err != nil || !ok || w.ResourceVersion == "" {
		return err == nil && !ok && w.ResourceVersion == ""
	}
	has, err := meta.Accessor(found)
	if err != nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(has.GetResourceVersion(), w.ResourceVersion)
	return err == nil && order >= 0
}
