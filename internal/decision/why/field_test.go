// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// What was sent of a field is found by the path that messages have, unless elements of a list on
// the way were put in or taken out.
func TestBefore(t *testing.T) {
	d := &v1alpha1.Decision{Steps: []v1alpha1.Step{{Patch: []v1alpha1.PatchOperation{
		{Op: "replace", Path: "/spec/containers/0/imagePullPolicy"}, {Op: "add", Path: "/spec/volumes/0"},
		{Op: "add", Path: "/metadata/labels/a.b~1c"},
	}}}}
	sent := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a.b/c": "old"}},
		"spec": map[string]any{"containers": []any{map[string]any{"imagePullPolicy": "Never"}},
			"volumes": []any{map[string]any{"name": "v"}}},
	}
	for field, want := range map[string]string{
		"spec.containers[0].imagePullPolicy": "Never",
		"spec.containers[1].imagePullPolicy": "",
		"spec.containers[x]":                 "",
		"spec.volumes[0].name":               "",
		"metadata.labels[a.b/c]":             "old",
		"metadata.labels[a.b/c].d":           "",
		"metadata.annotations":               "",
	} {
		got, ok := NewSentObject(d, sent).Value(field)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %t, want %q", field, got, ok, want)
		}
	}
	if got, ok := NewSentObject(d, nil).Value("spec"); ok {
		t.Errorf("of nothing there is %q", got)
	}
}

// A field that is missing wasn't taken away by what was set beside it.
func TestCausesOfWhatIsMissing(t *testing.T) {
	all := []Change{{Field: "spec.containers[0].volumeMounts[0]"}, {Field: "spec.containers[1]"}}
	for message, want := range map[string]int{
		"spec.containers[0].image: Required value":            0,
		"spec.containers[0].image: Invalid value: \"\"":       0,
		"spec.containers[1].image: Required value":            1,
		"spec.containers[0].volumeMounts[0].name: Not found:": 1,
	} {
		e := &Explanation{Decision: &v1alpha1.Decision{Message: message}, Changes: all}
		if got := e.findCauses(); len(got) != want {
			t.Errorf("%s: got %v, want %d", message, got, want)
		}
	}
}
