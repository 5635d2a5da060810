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

// aggregateRoles gives ClusterRoles that aggregate others the rules of those if a ClusterRole was
// written since it was last called, as a controller does: admin, edit and view have none otherwise.
// Rights are asked for without authorization, too: by policies, by plugins, and when a role or a
// binding is written, since nobody may grant more than they have.
func (r *Reviewer) aggregateRoles(ctx context.Context) error {
	if r.cluster.aggregated {
		return nil
	}
	roles, err := listed[rbacv1.ClusterRole](ctx, r, clusterRoleKind)
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
	mapping, err := r.cluster.find(object)
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
