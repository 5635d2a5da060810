// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// scopedTo returns c if the object is in all of q's scopes, else nil. c may be nil.
//
// Source: k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go#Matches c3a8d217
func (c *Cost) scopedTo(q *corev1.ResourceQuota) *Cost {
	if c == nil {
		return nil
	}
	for _, scope := range q.Spec.Scopes {
		if !c.isInScope(scope, corev1.ScopeSelectorOpExists, nil) {
			return nil
		}
	}
	if q.Spec.ScopeSelector == nil {
		return c
	}
	for i := range q.Spec.ScopeSelector.MatchExpressions {
		e := &q.Spec.ScopeSelector.MatchExpressions[i]
		if !c.isInScope(e.ScopeName, e.Operator, e.Values) {
			return nil
		}
	}
	return c
}

// isInScope reports whether the object is in one scope. Only pods and persistent volume claims can
// be.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core#podMatchesScopeFunc c466762b
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core#pvcMatchesScopeFunc a831c30b
func (c *Cost) isInScope(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values []string) bool {
	switch c.kind {
	case podKind:
		switch scope {
		case corev1.ResourceQuotaScopeTerminating:
			return c.terminating
		case corev1.ResourceQuotaScopeNotTerminating:
			return !c.terminating
		case corev1.ResourceQuotaScopeBestEffort:
			return c.bestEffort
		case corev1.ResourceQuotaScopeNotBestEffort:
			return !c.bestEffort
		case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			return c.crossNamespace
		case corev1.ResourceQuotaScopePriorityClass:
			return selectorMatches(operator, values, c.priorityClass)
		}
	case volumeClaimKind:
		if scope != corev1.ResourceQuotaScopeVolumeAttributesClass {
			return false
		}
		if len(c.attributesClasses) == 0 {
			return selectorMatches(operator, values, "")
		}
		return slices.ContainsFunc(c.attributesClasses,
			func(class string) bool { return selectorMatches(operator, values, class) })
	}
	return false
}

// selectorMatches evaluates a scope selector's operator for an object's class, "" if it has none.
// As with label selectors, NotIn matches objects without a class. An unknown operator, which the
// API refuses, matches nothing.
//
// Source: k8s.io/kubernetes/pkg/apis/core/v1/helper/helpers.go#ScopedResourceSelectorRequirementsAsSelector 0b6292d8
func selectorMatches(operator corev1.ScopeSelectorOperator, values []string, class string) bool {
	switch operator {
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	case corev1.ScopeSelectorOpIn:
		return class != "" && slices.Contains(values, class)
	case corev1.ScopeSelectorOpNotIn:
		return class == "" || !slices.Contains(values, class)
	}
	return false
}

// haveSameScopes reports whether two objects are in the same scopes of all possible quotas.
func haveSameScopes(a, b *Cost) bool {
	return a.kind == b.kind && a.terminating == b.terminating && a.bestEffort == b.bestEffort &&
		a.crossNamespace == b.crossNamespace && a.priorityClass == b.priorityClass &&
		slices.Equal(a.attributesClasses, b.attributesClasses)
}
