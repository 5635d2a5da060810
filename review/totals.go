// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/internal/review/usage"
)

// totals has the quotas of the namespaces for which the candidate has some, with what all audited objects use of
// them. Only sums are kept.
type totals struct {
	*meter
	trial             judge.Trial
	candidate, before *usage.Quotas // before is nil if there is none
}

// countAll reads all objects that are audited, and counts them.
func (a *auditing) countAll(ctx context.Context) (*totals, error) {
	m, err := a.candidate.reviewer.newMeter(nil)
	if err != nil {
		return nil, err
	}
	t := &totals{meter: m, trial: a.Trial.Trial}
	if t.candidate, err = a.quotasTried(ctx, a.candidate); err != nil {
		return nil, err
	}
	if a.before != nil {
		if t.before, err = a.quotasTried(ctx, a.before); err != nil {
			return nil, err
		}
	}
	if a.asked.Files != nil {
		err = a.asked.Files.each(ctx, nil, func(d input.Document, problem *input.Error) error {
			if problem == nil && !isHeaderKind(d.Object.GroupVersionKind()) {
				t.add(ctx, d.Object)
			}
			return ctx.Err()
		})
		if a.asked.Files.IsComplete() { // a snapshot has no Secrets
			t.forget("", corev1.Resource("secrets"))
		}
		return t, err
	}
	return t, t.addCluster(ctx, a)
}

// quotasTried returns a side's quotas in the namespaces for which a quota is tried, without usage.
func (a *auditing) quotasTried(ctx context.Context, side *Judge) (*usage.Quotas, error) {
	tried := map[string]bool{}
	for _, d := range slices.Concat(a.options.Candidate, a.options.Against) {
		if d.Object.GroupVersionKind().GroupKind() == quotaKind {
			tried[a.candidate.reviewer.namespaceOf(d.Object)] = true
		}
	}
	all, err := side.quotasOf(ctx)
	if err != nil {
		return nil, err
	}
	quotas := &usage.Quotas{}
	for i := range all {
		if tried[all[i].Namespace] {
			quotas.Put(&all[i])
		}
	}
	return quotas, nil
}

// sides returns the quotas of the sides that there are.
func (t *totals) sides() []*usage.Quotas {
	if t.before == nil {
		return []*usage.Quotas{t.candidate}
	}
	return []*usage.Quotas{t.candidate, t.before}
}

// addCluster counts the objects of a cluster.
func (t *totals) addCluster(ctx context.Context, a *auditing) error {
	cluster := a.options.Live
	resources, _, err := cluster.Resources(ctx)
	if err != nil {
		return err
	}
	for _, resource := range resources {
		if !t.counts("", resource.Resource.GroupResource()) {
			continue
		}
		gap, err := cluster.Each(ctx, resource, func(object *unstructured.Unstructured) error {
			t.add(ctx, object)
			return nil
		})
		if err != nil {
			return err
		}
		if gap != nil { // the audit itself tells
			t.forget("", resource.Resource.GroupResource())
		}
	}
	return nil
}

// counts reports whether a quota of a namespace counts a resource. The empty namespace stands for all.
func (t *totals) counts(namespace string, resource schema.GroupResource) bool {
	return t.candidate.Counts(namespace, resource) || t.before != nil && t.before.Counts(namespace, resource)
}

func (t *totals) forget(namespace string, resource schema.GroupResource) {
	for _, side := range t.sides() {
		side.Forget(namespace, resource)
	}
}

// add counts an object.
func (t *totals) add(ctx context.Context, object *unstructured.Unstructured) {
	resource, namespace, ok := t.placeOf(object)
	if !ok {
		return
	}
	cost, err := t.costOf(ctx, resource, object)
	if err != nil {
		t.forget(namespace, resource)
		return
	}
	for _, side := range t.sides() {
		side.Apply(namespace, quota.Change{Resource: resource, New: cost})
	}
}

// placeOf returns the resource as which an object counts, and its namespace. It returns false if no quota counts it.
func (t *totals) placeOf(object *unstructured.Unstructured) (schema.GroupResource, string, bool) {
	of, mapping := t.reviewer.resourceOf(object)
	resource := quota.StoredAs(of.GroupResource())
	if mapping != nil && mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return resource, "", false
	}
	namespace := t.reviewer.namespaceOf(object)
	return resource, namespace, t.counts(namespace, resource)
}

func (t *totals) costOf(ctx context.Context, resource schema.GroupResource, object *unstructured.Unstructured) (*quota.Cost,
	error) {
	data, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return t.measure(ctx, resource, data)
}

// existing returns what an audited object costs; nil if no quota counts it.
func (t *totals) existing(ctx context.Context, object *unstructured.Unstructured) *quota.Cost {
	if t == nil {
		return nil
	}
	resource, _, ok := t.placeOf(object)
	if !ok {
		return nil
	}
	cost, err := t.costOf(ctx, resource, object)
	if err != nil {
		return nil // it was not counted either
	}
	return cost
}

// by returns the trial that judges a request by the quotas as well. A creation takes the place of what an object costs
// that exists, or if that is nil of one that costs the same.
func (t *totals) by(ctx context.Context, r *judge.Request, existing *quota.Cost) *judge.Trial {
	trial := t.trial
	trial.Candidate = trial.Candidate.WithQuotas(t.decide(ctx, t.candidate, r, existing))
	if t.before != nil {
		trial.Before = trial.Before.WithQuotas(t.decide(ctx, t.before, r, existing))
	}
	return &trial
}

func (t *totals) decide(ctx context.Context, quotas *usage.Quotas, r *judge.Request, existing *quota.Cost) func(
	*quota.Enforcement) error {
	return func(e *quota.Enforcement) error {
		change := quota.Change{Resource: e.Resource, Old: e.Old, New: e.New}
		if e.New == nil { // its cost depends on other objects
			var err, oldErr error
			change.New, err = t.measure(ctx, e.Resource, r.Object)
			if r.OldObject != nil {
				change.Old, oldErr = t.measure(ctx, e.Resource, r.OldObject)
			}
			if err := errors.Join(err, oldErr); err != nil {
				return judge.Unjudged(judge.JudgingFailed, fmt.Sprintf("measuring it for quotas: %v", err))
			}
		}
		present := quotas.Of(e.Namespace)
		if r.Operation == admission.Create {
			replaced := existing
			if replaced == nil {
				replaced = change.New
			}
			present = slices.Clone(present)
			for _, moved := range (quota.Change{Resource: e.Resource, Old: replaced}).Apply(present) {
				i := slices.IndexFunc(present, func(q *corev1.ResourceQuota) bool { return q.Name == moved.Name })
				present[i] = moved
			}
		}
		if change.NeedsUnknown(present) {
			return judge.Unjudged(unknownUsage, fmt.Sprintf("it isn't known what objects of %s use in namespace %s", e.Resource,
				e.Namespace))
		}
		return usage.Decide(e, change, present)
	}
}
