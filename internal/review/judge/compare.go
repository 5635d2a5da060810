package judge

import (
	"bytes"
	"regexp"
	"slices"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Difference says in what two verdicts on a request differ.
type Difference struct {
	// Verdict is true if one is Admitted and the other Refused, for example.
	Verdict bool `json:"verdict,omitempty"`
	// Message is true if the reasons differ of two verdicts that are the same.
	Message bool `json:"message,omitempty"`
	// Changes is true if the object is changed in different ways. It is false if either isn't Admitted.
	Changes bool `json:"changes,omitempty"`
	// Warnings is true if the client gets different warnings, in any order.
	Warnings bool `json:"warnings,omitempty"`
}

// IsAny reports whether there is any difference.
func (d Difference) IsAny() bool { return d != Difference{} }

// Compare returns in what two verdicts differ.
func Compare(a, b *Verdict) Difference {
	d := Difference{Verdict: a.Decision.Verdict != b.Decision.Verdict}
	d.Message = !d.Verdict && a.Decision.Message != b.Decision.Message
	d.Changes = a.Decision.Verdict == v1alpha1.Admitted && b.Decision.Verdict == v1alpha1.Admitted &&
		!slices.EqualFunc(changes(a.Decision), changes(b.Decision), isSameOperation)
	d.Warnings = !slices.Equal(slices.Sorted(slices.Values(a.Warnings)), slices.Sorted(slices.Values(b.Warnings)))
	return d
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
