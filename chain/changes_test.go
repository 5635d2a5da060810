// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"

	"gatehouse.dev/plugin"
)

// Each plugin's changes are its own, in whatever order metadata and the rest are changed, and
// whether the object has a Go type or not.
func TestChanges(t *testing.T) {
	node := func(name string) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			switch object := a.GetObject().(type) {
			case *examplev1.Pod:
				object.Spec.NodeName = name
			case *unstructured.Unstructured:
				return unstructured.SetNestedField(object.Object, name, "spec", "nodeName")
			}
			return nil
		}
	}
	mark := func(key, value string) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			object := a.GetObject().(metav1.Object)
			labels := object.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			if labels[key] = value; value == "" {
				delete(labels, key)
			}
			object.SetLabels(labels)
			return nil
		}
	}
	plugins := mutators(mark("b", "1"), mark("b", "2"), look, node("x"), mark("c", "1"), node("y"), mark("b", ""), look)
	want := []string{
		`[{"op":"add","path":"/metadata/labels/b","value":"1"}]`,
		`[{"op":"replace","path":"/metadata/labels/b","value":"2"}]`,
		`null`,
		`[{"op":"add","path":"/spec/nodeName","value":"x"}]`,
		`[{"op":"add","path":"/metadata/labels/c","value":"1"}]`,
		`[{"op":"replace","path":"/spec/nodeName","value":"y"}]`,
		`[{"op":"remove","path":"/metadata/labels/b"}]`,
		`null`,
	}
	pod := newPod()
	pod.Labels = map[string]string{"a": "1"}
	custom := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "t", "labels": map[string]any{"a": "1"}},
		"spec":     map[string]any{"size": int64(1)}}}
	for name, object := range map[string]runtime.Object{"typed": pod, "untyped": custom} {
		t.Run(name, func(t *testing.T) {
			var got []string
			c := newChain(t, plugins, plugin.Observe{Want: plugin.Wants{Changes: true}, Step: func(_ context.Context, s plugin.Step) {
				patch, err := s.Changes.Patch()
				if err != nil {
					t.Error(err)
				}
				data, err := json.Marshal(patch)
				if err != nil {
					t.Error(err)
				}
				got = append(got, string(data))
			}})
			if err := c.Admit(t.Context(), create(object), newInterfaces()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
