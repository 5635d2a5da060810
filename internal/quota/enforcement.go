// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Enforcement is how the ResourceQuota plugin hands its decision to storage: storage refuses the
// write if it would exceed a quota.
type Enforcement struct {
	// Resource, Namespace and Name identify the written object. A request may write others as well,
	// such as the IP addresses of a Service; the Enforcement isn't for these.
	Resource        schema.GroupResource
	Namespace, Name string
	// Old and New are the object's costs before and after the write. Old is nil for a create.
	// Storage ignores both if the costs depend on other objects, and measures itself; see
	// DependsOnRelated.
	Old, New *Cost
	// DryRun says that the write is a dry run.
	DryRun bool
	// Limited lists the resources that must not be used without a quota that covers them.
	Limited []LimitedResource
	// Refuse converts the reason of a refusal to the request's error.
	Refuse func(error) error
	// OnDecision, if not nil, is called with storage's decision and the state of the namespace's
	// quotas on which it was made. refusal is nil if the change was made. If the write fails for
	// another reason, OnDecision isn't called.
	OnDecision func(change Change, quotas []*corev1.ResourceQuota, refusal error)
}

// ReportAdmitted reports that storage has made the change.
func (e *Enforcement) ReportAdmitted(change Change, quotas []*corev1.ResourceQuota) {
	if e != nil && e.OnDecision != nil && len(quotas) > 0 {
		e.OnDecision(change, quotas, nil)
	}
}

// ReportRefused reports that storage refuses the change, and returns the request's error.
func (e *Enforcement) ReportRefused(change Change, quotas []*corev1.ResourceQuota, reason error) error {
	refusal := e.Refuse(reason)
	if e.OnDecision != nil {
		e.OnDecision(change, quotas, refusal)
	}
	return refusal
}

type holderKey struct{}

// holder is in a request's context, so that the plugin, which can't return a context, can pass an
// Enforcement to storage.
type holder struct {
	// dryRuns says that Enforce takes dry runs as well.
	dryRuns     bool
	mu          sync.Mutex
	enforcement *Enforcement
}

// WithHolder returns a context in which Enforce can leave an Enforcement.
func WithHolder(ctx context.Context) context.Context {
	return context.WithValue(ctx, holderKey{}, &holder{})
}

// WithDecider returns a context like that of WithHolder, in which Enforce can leave the Enforcement of a
// dry run as well. It is for a caller that decides as storage does, and stores nothing.
func WithDecider(ctx context.Context) context.Context {
	return context.WithValue(ctx, holderKey{}, &holder{dryRuns: true})
}

// Enforce stores e in the context, for the storage that writes the object. It returns false if the
// context has no holder, or none for dry runs: then storage doesn't enforce quotas.
func Enforce(ctx context.Context, e *Enforcement) bool {
	h, ok := ctx.Value(holderKey{}).(*holder)
	if !ok || e.DryRun && !h.dryRuns {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enforcement = e
	return true
}

// TakeEnforcement removes the Enforcement for this object from the context and returns it. It
// returns nil if there is none. If an update is tried again, it is admitted again, with a new
// Enforcement.
func TakeEnforcement(ctx context.Context, resource schema.GroupResource, namespace, name string) *Enforcement {
	h, ok := ctx.Value(holderKey{}).(*holder)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.enforcement
	// A kind may be served in two groups and stored in one. So the group may differ, and then the
	// costs do too.
	if e == nil || e.Resource.Resource != resource.Resource || e.Namespace != namespace || e.Name != name {
		return nil
	}
	h.enforcement = nil
	return e
}
