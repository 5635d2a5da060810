// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"gatehouse.dev/internal/inventory"
)

var bindingRules = []Rule{
	{"binding-policy", Error, "a binding's policy doesn't exist", (*linting).bindingPolicy},
	{"binding-empty", Warning, "a binding matches nothing", (*linting).bindingEmpty},
	{"binding-params", Error, "a binding and its policy disagree about params", (*linting).bindingParams},
	{"params-missing", Error, "a binding's params don't exist", (*linting).paramsMissing},
}

// policyOf returns the policy of a binding, or nil.
func (l *linting) policyOf(b *inventory.Binding) *inventory.Policy {
	for _, p := range l.Policies {
		if b.Binds(p) {
			return p
		}
	}
	return nil
}

func (l *linting) bindingPolicy() {
	for _, b := range l.Bindings {
		if l.policyOf(b) != nil {
			continue
		}
		severity, where := Error, "the cluster"
		if !l.Complete {
			severity, where = Warning, "the files"
		}
		l.add(place{b.Document, "/spec/policyName", ""}, severity, change{}, fmt.Sprintf("there is no policy %q in %s: the "+
			"binding has no effect", b.PolicyName, where), "name a policy that exists")
	}
}

func (l *linting) bindingEmpty() {
	for _, b := range l.Bindings {
		p := l.policyOf(b)
		if p == nil || b.Resources == nil {
			continue
		}
		at := place{b.Document, "/spec/matchResources", ""}
		if p.Constraints != nil && disjoint(p.Constraints.ResourceRules, b.Resources.ResourceRules) {
			l.add(at, Warning, change{}, fmt.Sprintf("its resourceRules and those of policy %s have no resource and operation "+
				"in common: it matches nothing", p.Name()), "correct the rules, or leave them out for those of the policy")
		}
		if !l.Complete || len(l.Namespaces) == 0 || b.Resources.NamespaceSelector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Resources.NamespaceSelector)
		if err != nil || selector.Empty() {
			continue
		}
		selects := false
		for _, n := range l.Namespaces {
			selects = selects || selector.Matches(labels.Set(n.Labels))
		}
		if !selects {
			l.add(at, Warning, change{}, "its namespaceSelector selects no namespace of the cluster: it matches only objects "+
				"without one", "correct the selector, or label the namespaces")
		}
	}
}

// disjoint reports whether there are two lists of rules, and no request is for a rule of both. Equivalent
// resources of other groups count as others only if no rule has a wildcard.
func disjoint(a, b []admissionregistrationv1.NamedRuleWithOperations) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	for _, x := range a {
		for _, y := range b {
			if common(x.Operations, y.Operations) && common(x.APIGroups, y.APIGroups) &&
				slices.ContainsFunc(x.Resources, func(one string) bool {
					return slices.ContainsFunc(y.Resources, func(other string) bool { return commonResource(one, other) })
				}) {
				return false
			}
		}
	}
	return true
}

// common reports whether two lists have an element in common, or a wildcard.
func common[T ~string](a, b []T) bool {
	return slices.Contains(a, "*") || slices.Contains(b, "*") ||
		slices.ContainsFunc(a, func(one T) bool { return slices.Contains(b, one) })
}

// commonResource reports whether two patterns of resources match one in common.
func commonResource(a, b string) bool {
	resource, subresource, _ := strings.Cut(a, "/")
	otherResource, otherSubresource, _ := strings.Cut(b, "/")
	same := func(x, y string) bool { return x == y || x == "*" || y == "*" }
	return same(resource, otherResource) && same(subresource, otherSubresource)
}

func (l *linting) bindingParams() {
	for _, b := range l.Bindings {
		p := l.policyOf(b)
		if p == nil {
			continue
		}
		switch {
		case p.ParamKind != nil && b.ParamRef == nil:
			end := "requests pass without it"
			if p.Fails {
				end = "each request that it is for is refused"
			}
			l.add(place{b.Document, "/spec", ""}, bySeverity(p.Fails), change{}, fmt.Sprintf("policy %s reads params, and the "+
				"binding has no paramRef: expressions that read them fail, and %s", p.Name(), end),
				"name the params with paramRef")
		case p.ParamKind == nil && b.ParamRef != nil:
			l.add(place{b.Document, "/spec/paramRef", ""}, Warning, change{}, fmt.Sprintf("policy %s has no paramKind: the "+
				"binding's paramRef has no effect", p.Name()), "remove paramRef, or give the policy a paramKind")
		}
	}
}

// paramsMissing looks for params that aren't there. If the objects are only a part of a cluster, they may be elsewhere,
// unless others of their kind are among them.
func (l *linting) paramsMissing() {
	for _, b := range l.Bindings {
		p := l.policyOf(b)
		if p == nil || p.ParamKind == nil || b.ParamRef == nil {
			continue
		}
		known, there := l.options.KnowsParams, false
		for _, d := range l.Documents {
			if kind := d.Object.GroupVersionKind(); kind.Kind == p.ParamKind.Kind &&
				kind.GroupVersion().String() == p.ParamKind.APIVersion {
				known, there = true, there || selects(b.ParamRef, d.Object)
			}
		}
		if there || !known {
			continue
		}
		severity, end := Warning, "requests pass without it"
		if a := b.ParamRef.ParameterNotFoundAction; p.Fails && (a == nil || *a == admissionregistrationv1.DenyAction) {
			severity, end = Error, "each request that it is for is refused"
		}
		what := "the selector selects no " + p.ParamKind.Kind
		if b.ParamRef.Name != "" {
			what = fmt.Sprintf("there is no %s %q", p.ParamKind.Kind, b.ParamRef.Name)
		}
		if b.ParamRef.Namespace != "" {
			what += " in namespace " + b.ParamRef.Namespace
		}
		l.add(place{b.Document, "/spec/paramRef", ""}, severity, change{}, what+": without params "+end,
			"create the params, or name some that exist")
	}
}

// selects reports whether an object may be one of the params that a binding names.
func selects(ref *admissionregistrationv1.ParamRef, o *unstructured.Unstructured) bool {
	if ref.Namespace != "" && o.GetNamespace() != "" && ref.Namespace != o.GetNamespace() {
		return false
	}
	if ref.Selector == nil {
		return ref.Name == o.GetName()
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	return err != nil || selector.Matches(labels.Set(o.GetLabels()))
}
