package quota

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Enforcement is what the ResourceQuota plugin decided at admission and storage carries out: the
// write it speaks of is refused where it would exceed a quota.
type Enforcement struct {
	// Resource, Namespace and Name are of the object that is written. A request may write others on
	// its way, as a Service's IP addresses, and those are not meant.
	Resource        schema.GroupResource
	Namespace, Name string
	// Old and New are the object's costs before (nil on create) and after the write. They aren't
	// looked at where storage must measure, because the costs depend on other objects; see Tied.
	Old, New *Cost
	// Limited are the resources that must not be used without a covering quota.
	Limited []LimitedResource
	// Refuse makes the request's error of a refusal.
	Refuse func(error) error
	// Decided, where not nil, is told what storage decided on which state of the namespace's
	// quotas: that the change was made, or with which error it was refused. What failed for another
	// reason isn't told.
	Decided func(change Change, quotas []*corev1.ResourceQuota, refusal error)
}

// Made tells that storage has made the change.
func (e *Enforcement) Made(change Change, quotas []*corev1.ResourceQuota) {
	if e != nil && e.Decided != nil && len(quotas) > 0 {
		e.Decided(change, quotas, nil)
	}
}

// Refused tells that storage refuses the change, and returns the request's error.
func (e *Enforcement) Refused(change Change, quotas []*corev1.ResourceQuota, reason error) error {
	refusal := e.Refuse(reason)
	if e.Decided != nil {
		e.Decided(change, quotas, refusal)
	}
	return refusal
}

type holderKey struct{}

// holder waits in a request's context for what the plugin, which can't return a context, has to say
// to storage.
type holder struct {
	mu       sync.Mutex
	enforced *Enforcement
}

// WithHolder returns a context in which Enforce can leave an Enforcement.
func WithHolder(ctx context.Context) context.Context {
	return context.WithValue(ctx, holderKey{}, &holder{})
}

// Enforce leaves e for the storage that writes its object with this context. It returns false where
// nobody will: the context is not that of a server that enforces quotas in its storage.
func Enforce(ctx context.Context, e *Enforcement) bool {
	h, ok := ctx.Value(holderKey{}).(*holder)
	if !ok {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enforced = e
	return true
}

// Spend returns what was left for this object, once: an update that is tried again is admitted
// again, and left anew.
func Spend(ctx context.Context, resource schema.GroupResource, namespace, name string) *Enforcement {
	h, ok := ctx.Value(holderKey{}).(*holder)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.enforced
	// A kind that is served in two groups is stored in one of them, so the group may differ, and
	// then the costs do.
	if e == nil || e.Resource.Resource != resource.Resource || e.Namespace != namespace || e.Name != name {
		return nil
	}
	h.enforced = nil
	return e
}
