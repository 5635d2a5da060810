// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"regexp"
	"slices"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// differInChanges reports whether two verdicts change the object in different ways. b may be nil, which
// changes nothing.
func differInChanges(a, b *Verdict) bool {
	return len(ChangesBeside(a, b)) > 0 || b != nil && len(ChangesBeside(b, a)) > 0
}

// ChangesBeside returns what a verdict changes in the object and another one does not. The other may be
// nil.
func ChangesBeside(v, other *Verdict) []v1alpha1.PatchOperation {
	own := changes(v.Decision)
	if other == nil {
		return own
	}
	theirs := changes(other.Decision)
	return slices.DeleteFunc(own, func(o v1alpha1.PatchOperation) bool {
		i := slices.IndexFunc(theirs, func(p v1alpha1.PatchOperation) bool { return isSameOperation(o, p) })
		if i >= 0 {
			theirs = slices.Delete(theirs, i, i+1)
		}
		return i >= 0
	})
}

// changes returns what all plugins changed, in order.
func changes(d *v1alpha1.Decision) []v1alpha1.PatchOperation {
	var all []v1alpha1.PatchOperation
	for i := range d.Steps {
		all = append(all, d.Steps[i].Patch...)
	}
	return all
}

func isSameOperation(a, b v1alpha1.PatchOperation) bool {
	if a.Op != b.Op || a.Path != b.Path || (a.Value == nil) != (b.Value == nil) {
		return false
	}
	return a.Value == nil || bytes.Equal(a.Value.Raw, b.Value.Raw) ||
		bytes.Equal(withoutRandom(a.Value.Raw), withoutRandom(b.Value.Raw))
}

// randomName is the name of the volume with a pod's token. A part of it is random.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/serviceaccount/admission.go#ServiceAccountVolumeName 96019cbe
var randomName = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`)

func withoutRandom(value []byte) []byte {
	return randomName.ReplaceAll(value, []byte("kube-api-access"))
}
