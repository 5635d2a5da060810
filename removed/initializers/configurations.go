// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
)

// mergedInitializers holds the initializers of all configurations, in the order in which objects wait
// for them.
type mergedInitializers []admissionregistrationv1alpha1.Initializer

// merge joins the initializers of all configurations, in the order of the configurations' names.
func merge(objects []any) mergedInitializers {
	var configurations []*admissionregistrationv1alpha1.InitializerConfiguration
	for _, object := range objects {
		if c, ok := object.(*admissionregistrationv1alpha1.InitializerConfiguration); ok {
			configurations = append(configurations, c)
		}
	}
	slices.SortFunc(configurations, func(a, b *admissionregistrationv1alpha1.InitializerConfiguration) int {
		return strings.Compare(a.Name, b.Name)
	})
	var all mergedInitializers
	for _, c := range configurations {
		all = append(all, c.Initializers...)
	}
	return all
}

// list returns the list for a new object of a resource: the names, separated by commas and without
// duplicates, or "" if there are none. The object can also be written at the equivalent resources,
// so their rules count, too.
func (m mergedInitializers) list(resource schema.GroupVersionResource, equivalent []schema.GroupVersionResource) string {
	var names []string
	for _, initializer := range m {
		matched := matches(initializer.Rules, resource) || slices.ContainsFunc(equivalent,
			func(resource schema.GroupVersionResource) bool { return matches(initializer.Rules, resource) })
		if matched && !slices.Contains(names, initializer.Name) {
			names = append(names, initializer.Name)
		}
	}
	return strings.Join(names, ",")
}

// matches reports whether one of the rules matches the resource. In Kubernetes all of them had to,
// although its documentation said one.
func matches(rules []admissionregistrationv1alpha1.Rule, resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1alpha1.Rule) bool {
		return matchesName(rule.APIGroups, resource.Group) && matchesName(rule.APIVersions, resource.Version) &&
			matchesName(rule.Resources, resource.Resource)
	})
}

func matchesName(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}
