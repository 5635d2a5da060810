// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apiserver/pkg/admission"
)

// admitClaim lets a node report the result of a volume's resize in the status of the claim.
func (p *nodeRestriction) admitClaim(r request) error {
	if r.GetSubresource() != "status" {
		return r.forbid("may only update PVC status")
	}
	if r.GetOperation() != admission.Update {
		return r.forbid("unexpected operation %q", r.GetOperation())
	}
	before, ok := r.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return r.forbid("unexpected type %T", r.GetOldObject())
	}
	after, ok := r.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	before, after = p.withoutResize(before), p.withoutResize(after)
	if !apiequality.Semantic.DeepEqual(before, after) {
		return r.forbid("node %q is not allowed to update fields other than status.quantity and status.conditions: %v",
			r.node, diff.Diff(before, after))
	}
	return nil
}

// withoutResize returns a copy of a claim without what a node may change. It also leaves out what
// changes by itself: the resource version, which a request may omit, and the managed fields.
func (p *nodeRestriction) withoutResize(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	rest := claim.DeepCopy()
	rest.ResourceVersion, rest.ManagedFields = "", nil
	rest.Status.Capacity, rest.Status.Conditions = nil, nil
	if p.expansionRecovery {
		rest.Status.AllocatedResources, rest.Status.AllocatedResourceStatuses = nil, nil
	}
	return rest
}
