package review

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterRole is what can be aggregated of others.
var clusterRole = schema.GroupKind{Group: rbacv1.GroupName, Kind: "ClusterRole"}

// An aggregation is which ClusterRoles are aggregated in others.
type aggregation struct {
	selectors []labels.Selector
	selected  map[string]bool // by name
}

// roleWritten has ClusterRoles aggregated once more, where one was written or deleted of which
// others have their rules, or that has its own of others. Most have nothing to do with that.
func (c *cluster) roleWritten(role *unstructured.Unstructured) {
	if c.aggregation == nil {
		return
	}
	_, aggregates := role.Object["aggregationRule"]
	if aggregates || c.aggregation.selected[role.GetName()] ||
		slices.ContainsFunc(c.aggregation.selectors, func(s labels.Selector) bool {
			return s.Matches(labels.Set(role.GetLabels()))
		}) {
		c.aggregation = nil
	}
}

// aggregateRoles gives ClusterRoles that aggregate others the rules of those, where one of them was
// written, as a controller does: admin, edit and view have none otherwise. Rights are asked for
// without authorization, too: by policies, by plugins, and where a role or a binding is written,
// which nobody may give more than they have.
//
// Source: k8s.io/kubernetes/pkg/controller/clusterroleaggregation.
func (r *Reviewer) aggregateRoles(ctx context.Context) error {
	if r.cluster.aggregation != nil {
		return nil
	}
	mapping, err := r.cluster.find(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRole"}})
	if err != nil {
		return err
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodGet, resource: *mapping, as: admin})
	if err != nil {
		return err
	}
	if !a.ok() {
		return errors.New(a.message())
	}
	var roles rbacv1.ClusterRoleList
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(a.object.Object, &roles); err != nil {
		return err
	}
	slices.SortFunc(roles.Items, func(a, b rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	of := &aggregation{selected: map[string]bool{}}
	// One that aggregates may itself be aggregated.
	for changed := true; changed; {
		changed = false
		for i := range roles.Items {
			role := &roles.Items[i]
			rules, err := of.rules(role, roles.Items)
			if err != nil {
				return err
			}
			if role.AggregationRule == nil || equality.Semantic.DeepEqual(rules, role.Rules) {
				continue
			}
			changed, role.Rules = true, rules
			if err := r.putRole(ctx, mapping, role); err != nil {
				return err
			}
		}
	}
	r.cluster.aggregation = of
	return nil
}

// rules are those that a role has from others.
func (a *aggregation) rules(role *rbacv1.ClusterRole, all []rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	if role.AggregationRule == nil {
		return nil, nil
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		a.selectors = append(a.selectors, selector)
		for j := range all {
			if all[j].Name == role.Name || !selector.Matches(labels.Set(all[j].Labels)) {
				continue
			}
			a.selected[all[j].Name] = true
			for _, rule := range all[j].Rules {
				if !slices.ContainsFunc(rules, func(has rbacv1.PolicyRule) bool {
					return equality.Semantic.DeepEqual(has, rule)
				}) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}

// putRole stores a role as it is, without admission.
func (r *Reviewer) putRole(ctx context.Context, mapping *meta.RESTMapping, role *rbacv1.ClusterRole) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(role)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: fields}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	object.SetManagedFields(nil)
	a, err := r.cluster.do(ctx, call{verb: http.MethodPut, resource: *mapping, name: role.Name, body: object,
		as: admin, state: true})
	if err != nil {
		return err
	}
	if !a.ok() {
		return errors.New(a.message())
	}
	role.ResourceVersion = a.object.GetResourceVersion()
	return r.awaitObject(ctx, a.object)
}
