// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"regexp"
	"slices"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// OperationsBeside returns the operations of a patch that another one has not.
func OperationsBeside(patch, other []v1alpha1.PatchOperation) []v1alpha1.PatchOperation {
	theirs := slices.Clone(other)
	return slices.DeleteFunc(slices.Clone(patch), func(o v1alpha1.PatchOperation) bool {
		i := slices.IndexFunc(theirs, func(p v1alpha1.PatchOperation) bool { return isSameOperation(o, p) })
		if i >= 0 {
			theirs = slices.Delete(theirs, i, i+1)
		}
		return i >= 0
	})
}

// DifferInPatch reports whether two decisions change the object in different ways. b may be nil, which changes nothing.
func DifferInPatch(a, b *v1alpha1.Decision) bool {
	return len(OperationsBeside(PatchOf(a), PatchOf(b))) > 0 || len(OperationsBeside(PatchOf(b), PatchOf(a))) > 0
}

// PatchOf returns what all plugins of a decision changed, in order. d may be nil.
func PatchOf(d *v1alpha1.Decision) []v1alpha1.PatchOperation {
	if d == nil {
		return nil
	}
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
