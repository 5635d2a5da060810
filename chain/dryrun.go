// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apiserver/pkg/admission"
)

// dryRun is a request that is one, though its URL doesn't say so.
type dryRun struct{ admission.Attributes }

// IsDryRun implements admission.Attributes.
func (dryRun) IsDryRun() bool { return true }

// withDryRun returns the request's attributes, as a dry run if its body asks for that. The handlers
// of the API look into the body of a DELETE by themselves, but not into an Eviction, whose
// deleteOptions make it a dry run for the storage: kubectl drain --dry-run=server sends them.
func withDryRun(a admission.Attributes, o admission.ObjectInterfaces) admission.Attributes {
	if a.GetSubresource() != "eviction" || a.GetResource().GroupResource() != corev1.Resource("pods") ||
		a.IsDryRun() || a.GetObject() == nil {
		return a
	}
	shown, err := versionedForm(a.GetObject(), a.GetKind(), o)
	if err != nil {
		return a // plugins that ask for the object get this error
	}
	eviction, ok := shown.(*policyv1.Eviction)
	if !ok || eviction.DeleteOptions == nil || len(eviction.DeleteOptions.DryRun) == 0 {
		return a
	}
	return dryRun{a}
}
