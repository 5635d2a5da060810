// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// ruleMatches reports whether the rule matches requests with the target.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules a35c3235
func ruleMatches(rule *admissionregistrationv1.RuleWithOperations, t Target) bool {
	return containsOrAny(rule.Operations, admissionregistrationv1.OperationType(t.Operation)) &&
		containsOrAny(rule.APIGroups, t.Resource.Group) &&
		containsOrAny(rule.APIVersions, t.Resource.Version) &&
		slices.ContainsFunc(rule.Resources, func(pattern string) bool { return resourceMatches(pattern, t) }) &&
		scopeMatches(rule.Scope, t)
}

func containsOrAny[T ~string](list []T, value T) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// resourceMatches reports whether a pattern matches the target's resource. Patterns are pods,
// pods/status, pods/*, */status, * (all resources, but no subresource) and */*.
func resourceMatches(pattern string, t Target) bool {
	resource, subresource, _ := strings.Cut(pattern, "/")
	return (resource == "*" || resource == t.Resource.Resource) && (subresource == "*" || subresource == t.Subresource)
}

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

func scopeMatches(scope *admissionregistrationv1.ScopeType, t Target) bool {
	if scope == nil {
		return true
	}
	switch *scope {
	case admissionregistrationv1.AllScopes:
		return true
	case admissionregistrationv1.NamespacedScope:
		return t.Namespaced && t.Resource != namespaces
	case admissionregistrationv1.ClusterScope:
		return !t.Namespaced || t.Resource == namespaces
	}
	return false
}

// RuleMatchesAnyVersion reports whether the rule matches requests with the target, whatever the
// target's version.
func RuleMatchesAnyVersion(rule *admissionregistrationv1.RuleWithOperations, t Target) bool {
	any := *rule
	any.APIVersions = []string{"*"}
	return ruleMatches(&any, t)
}
