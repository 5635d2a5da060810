// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage keeps in memory what quotas count, for requests that are judged and not stored.
//
// [Quotas] has quotas with their usage. A [Ledger] also has what each object costs, as storage has it, so that a
// deletion gives back what a creation took.
package usage

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
)

// Quotas holds the quotas of namespaces, with their usage. Methods that change it may not be called
// concurrently with others.
type Quotas struct {
	in map[string][]*corev1.ResourceQuota
}

// Of returns the quotas of a namespace, by name. Callers must not change them.
func (q *Quotas) Of(namespace string) []*corev1.ResourceQuota { return q.in[namespace] }

// Counts reports whether a quota of a namespace counts a resource. The empty namespace stands for all.
func (q *Quotas) Counts(namespace string, resource schema.GroupResource) bool {
	if namespace != "" {
		return counts(q.in[namespace], resource)
	}
	for _, list := range q.in {
		if counts(list, resource) {
			return true
		}
	}
	return false
}

func counts(quotas []*corev1.ResourceQuota, resource schema.GroupResource) bool {
	for _, limits := range quotas {
		for name := range limits.Spec.Hard {
			if quota.CanUse(resource, name) {
				return true
			}
		}
	}
	return false
}

// Put adds a quota whose usage is the total of costs, in place of one of the same name.
func (q *Quotas) Put(limits *corev1.ResourceQuota, costs ...*quota.Cost) {
	counted := limits.DeepCopy()
	counted.Status.Hard, counted.Status.Used = counted.Spec.Hard, quota.Total(counted, slices.Values(costs))
	q.Remove(limits.Namespace, limits.Name)
	if q.in == nil {
		q.in = map[string][]*corev1.ResourceQuota{}
	}
	list := append(q.in[limits.Namespace], counted)
	slices.SortFunc(list, func(a, b *corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) })
	q.in[limits.Namespace] = list
}

// Remove removes a quota.
func (q *Quotas) Remove(namespace, name string) {
	list := slices.DeleteFunc(q.in[namespace], func(q *corev1.ResourceQuota) bool { return q.Name == name })
	if len(list) == 0 {
		delete(q.in, namespace)
		return
	}
	q.in[namespace] = list
}

// Apply moves the usage of a namespace's quotas.
func (q *Quotas) Apply(namespace string, change quota.Change) {
	for _, moved := range change.Apply(q.in[namespace]) {
		i := slices.IndexFunc(q.in[namespace], func(q *corev1.ResourceQuota) bool { return q.Name == moved.Name })
		q.in[namespace][i] = moved
	}
}

// Forget makes the usage of what objects of a resource use unknown. The empty namespace stands for all.
func (q *Quotas) Forget(namespace string, of schema.GroupResource) {
	for in, list := range q.in {
		if namespace != "" && in != namespace {
			continue
		}
		for _, q := range list {
			maps.DeleteFunc(q.Status.Used, func(name corev1.ResourceName, _ resource.Quantity) bool {
				return quota.CanUse(of, name)
			})
		}
	}
}

// Decide decides a change as storage does, and reports the decision. It returns the error that refuses it; nil if
// it is admitted. It changes nothing.
func Decide(e *quota.Enforcement, change quota.Change, quotas []*corev1.ResourceQuota) error {
	if _, refusal := change.Admit(quotas, e.Limited); refusal != nil {
		return e.ReportRefused(change, quotas, refusal)
	}
	e.ReportAdmitted(change, quotas)
	return nil
}
