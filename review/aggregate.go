// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"net/http"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"gatehouse.dev/internal/clusterrole"
)

var clusterRoleKind = rbacv1.SchemeGroupVersion.WithKind("ClusterRole")

// aggregateRoles gives ClusterRoles with an aggregationRule the rules of the selected roles, as a
// controller does, if a ClusterRole was written since the last call. Otherwise admin, edit and view
// would have none. Rights matter without authorization too: policies and plugins ask for them, and
// users can't grant more than they have when they write a role or a binding.
func (r *Reviewer) aggregateRoles(ctx context.Context) error {
	if r.cluster.aggregated {
		return nil
	}
	roles, err := listAs[rbacv1.ClusterRole](ctx, r, clusterRoleKind)
	if err != nil {
		return err
	}
	// A role that aggregates others may itself be aggregated.
	for changed := true; changed; {
		changed = false
		for i := range roles {
			role := &roles[i]
			if role.AggregationRule == nil {
				continue
			}
			rules, err := clusterrole.Aggregate(role, roles)
			if err != nil {
				return err
			}
			if equality.Semantic.DeepEqual(rules, role.Rules) {
				continue
			}
			changed, role.Rules = true, rules
			if err := r.putRole(ctx, role); err != nil {
				return err
			}
		}
	}
	r.cluster.aggregated = true
	return nil
}

// putRole stores a role as it is, without admission.
func (r *Reviewer) putRole(ctx context.Context, role *rbacv1.ClusterRole) error {
	role.ManagedFields = nil
	object, err := unstructuredOf(role, clusterRoleKind)
	if err != nil {
		return err
	}
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return err
	}
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
