package chain

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// A Follower is a plugin that goes by objects of the API as its informers show them, a moment after
// they were written. Its Descriptor says which (Enforces).
type Follower interface {
	admission.Interface
	// Await returns once the plugin goes by the object as it was written, or as it was later, or
	// once ctx ends, with its error.
	Await(ctx context.Context, object metav1.Object) error
}

// follower is a plugin that follows resources.
type follower struct {
	Follower
	enforces []Enforced
}

// Await returns once all plugins that enforce objects of the resource go by this one. It is for who
// must know; requests go by what is in force when they come.
func (c *Chain) Await(ctx context.Context, resource schema.GroupResource, object metav1.Object) error {
	for _, f := range c.followers {
		if !slices.ContainsFunc(f.enforces, func(e Enforced) bool { return e.Resource == resource }) {
			continue
		}
		if err := f.Await(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
