// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
)

// PolicyWarnings returns warnings about ValidatingAdmissionPolicies among documents: which fields
// their expressions read that none of their objects can have. It skips policies of another cluster's
// snapshot, and policies that can't be read.
func (r *Reviewer) PolicyWarnings(documents []input.Document) []string {
	_, documents = live.Parse(documents)
	var warnings []string
	for _, d := range documents {
		kind := d.Object.GroupVersionKind()
		if kind.Group != admissionregistrationv1.GroupName || kind.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{} // older versions have the same fields
		if runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, policy) != nil {
			continue
		}
		for _, unknown := range r.types.UnknownFields(policy) {
			warnings = append(warnings, fmt.Sprintf("%s: %s: %s", d.Source, input.Named(d.Object), unknown))
		}
	}
	return warnings
}
