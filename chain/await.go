package chain

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/tools/cache"
)

// Written is an object of the API as it was written last. That of no resource stands for all that
// the host's informers have.
type Written struct {
	Resource schema.GroupResource
	// Namespace is empty for an object without one.
	Namespace, Name string
	// ResourceVersion is that of the write; empty where the object is gone.
	ResourceVersion string
}

// A Follower is a plugin that goes by objects of the API in a form, or in caches, of its own, which
// have them a moment after they were written. The host's informers are not among them.
type Follower interface {
	admission.Interface
	// Await returns once the plugin goes by the object as it was written, or as it was later, or
	// once ctx ends, with its error. It returns at once where the plugin doesn't follow the
	// resource.
	Await(ctx context.Context, written Written) error
}

// Await returns once all plugins that follow the resource go by the object. It is for who must
// know; requests go by what is in force when they come.
func (c *Chain) Await(ctx context.Context, written Written) error {
	for _, f := range c.followers {
		if err := f.Await(ctx, written); err != nil {
			return err
		}
	}
	return nil
}

// awaitPoll is how often it is looked whether something is there.
const awaitPoll = time.Millisecond

// Until returns once done does with true, or once ctx ends, with its error. It is what Followers
// wait with.
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

// In tells whether an informer's store has the object as it was written, or as it was later.
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
