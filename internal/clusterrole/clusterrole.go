// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterrole computes the rules that a ClusterRole gets from others by its aggregationRule.
package clusterrole

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Aggregate returns the rules that Kubernetes' controller gives a role that has an aggregationRule,
// in the controller's order: selector by selector, and the selected roles by name.
//
// The controller exports nothing but its loop. TestCheckpointOfAggregatedClusterRoles of gatehousetest
// compares both.
//
// Source: k8s.io/kubernetes/pkg/controller/clusterroleaggregation#syncClusterRole bcae12c4
func Aggregate(role *rbacv1.ClusterRole, all []rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	all = slices.SortedFunc(slices.Values(all), func(a, b rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	var rules []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if other.Name == role.Name || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				same := func(has rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(has, rule) }
				if !slices.ContainsFunc(rules, same) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
