// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
)

// A Key names an object.
type Key struct {
	Resource        schema.GroupResource
	Namespace, Name string
}

// Unnamed begins the name of an object in a Ledger whose own name isn't known. No object has such a name.
const Unnamed = "#"

// A Ledger has quotas, and what each object costs that is there. It is not for concurrent use.
type Ledger struct {
	quotas  Quotas
	objects map[string]map[Key]*quota.Cost // by namespace
	// unnamed counts the objects whose name isn't known, by Keys without a name.
	unnamed map[Key]int
	// forgotten has the resources of which more or less is used than the objects show, by namespace.
	forgotten map[string][]schema.GroupResource
}

// NewLedger returns a ledger without quotas and objects.
func NewLedger() *Ledger {
	return &Ledger{objects: map[string]map[Key]*quota.Cost{}, unnamed: map[Key]int{},
		forgotten: map[string][]schema.GroupResource{}}
}

// Quotas returns the quotas of a namespace, by name. Callers must not change them.
func (l *Ledger) Quotas(namespace string) []*corev1.ResourceQuota { return l.quotas.Of(namespace) }

// Cost returns what an object costs, and nil if it isn't there.
func (l *Ledger) Cost(of Key) *quota.Cost { return l.objects[of.Namespace][of] }

// Set sets what an object costs, and nil if it isn't there any more.
func (l *Ledger) Set(of Key, cost *quota.Cost) {
	before := l.Cost(of)
	l.quotas.Apply(of.Namespace, quota.Change{Resource: of.Resource, Old: before, New: cost})
	if strings.HasPrefix(of.Name, Unnamed) {
		alike := Key{Resource: of.Resource, Namespace: of.Namespace}
		switch {
		case before == nil && cost != nil:
			l.unnamed[alike]++
		case before != nil && cost == nil:
			l.unnamed[alike]--
		}
	}
	in := l.objects[of.Namespace]
	switch {
	case cost == nil:
		if delete(in, of); len(in) == 0 {
			delete(l.objects, of.Namespace)
		}
		return
	case in == nil:
		in = map[Key]*quota.Cost{}
		l.objects[of.Namespace] = in
	}
	in[of] = cost
}

// PutQuota adds a quota, or replaces the one of its name. It counts the objects that are there.
func (l *Ledger) PutQuota(limits *corev1.ResourceQuota) {
	l.quotas.Put(limits, slices.Collect(maps.Values(l.objects[limits.Namespace]))...)
	for _, resource := range l.forgotten[limits.Namespace] {
		l.quotas.Forget(limits.Namespace, resource)
	}
}

// Total returns what the objects that are there use of what a quota limits.
func (l *Ledger) Total(limits *corev1.ResourceQuota) corev1.ResourceList {
	return quota.Total(limits, maps.Values(l.objects[limits.Namespace]))
}

// HasUnnamed reports whether an object of a resource is there whose name isn't known.
func (l *Ledger) HasUnnamed(namespace string, resource schema.GroupResource) bool {
	return l.unnamed[Key{Resource: resource, Namespace: namespace}] > 0
}

// RemoveQuota removes a quota.
func (l *Ledger) RemoveQuota(namespace, name string) { l.quotas.Remove(namespace, name) }

// Forget records that it isn't known any more what objects of a resource use in a namespace.
func (l *Ledger) Forget(namespace string, resource schema.GroupResource) {
	if slices.Contains(l.forgotten[namespace], resource) {
		return
	}
	l.forgotten[namespace] = append(l.forgotten[namespace], resource)
	l.quotas.Forget(namespace, resource)
}
