// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/removed/apis/initializers"
)

func newPod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", ResourceVersion: "1",
		Annotations: annotations}}
}

func waiting(list string) map[string]string {
	return map[string]string{initializers.PendingAnnotation: list}
}

func custom(metadata any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
}

func TestHidden(t *testing.T) {
	for name, test := range map[string]struct {
		object runtime.Object
		want   bool
	}{
		"without annotations": {newPod("a", nil), false},
		"with an empty list":  {newPod("a", waiting("")), false},
		"with a list":         {newPod("a", waiting("a.example.com")), true},
		"custom": {custom(
			map[string]any{"annotations": map[string]any{initializers.PendingAnnotation: "a.example.com"}}), true},
		"custom, without metadata": {&unstructured.Unstructured{}, false},
		"custom, of strange content": {custom(
			map[string]any{"annotations": map[string]any{initializers.PendingAnnotation: 1}}), false},
		"custom, of strange form": {custom("metadata"), false},
		"what has no metadata":    {&runtime.Unknown{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hidden(test.object); got != test.want {
				t.Errorf("hidden: %t", got)
			}
		})
	}
}

func TestDoomed(t *testing.T) {
	deleted := newPod("a", waiting("a.example.com"))
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	failed := newPod("a",
		map[string]string{initializers.PendingAnnotation: "a.example.com", initializers.ErrorAnnotation: "no"})
	for name, test := range map[string]struct {
		object runtime.Object
		want   bool
	}{
		"what waits": {newPod("a", waiting("a.example.com")), false},
		"deleted":    {deleted, true},
		"failed":     {failed, true},
		"no object":  {&runtime.Unknown{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustGo(test.object); got != test.want {
				t.Errorf("doomed: %t", got)
			}
		})
	}
}

func TestRemoveHidden(t *testing.T) {
	for _, test := range []struct{ given, want string }{
		{"", ""}, {"a", "a"}, {"-", ""}, {"a-b", "ab"}, {"-a", "a"}, {"a-", "a"}, {"--a--b", "ab"},
	} {
		pods, widgets := &corev1.PodList{}, &unstructured.UnstructuredList{}
		for _, name := range test.given {
			annotations, u := map[string]string(nil), custom(map[string]any{"name": string(name)})
			if name == '-' {
				annotations = waiting("a.example.com")
				u.SetAnnotations(annotations)
			}
			pods.Items, widgets.Items = append(pods.Items, *newPod(string(name), annotations)),
				append(widgets.Items, *u)
		}
		for _, list := range []runtime.Object{pods, widgets} {
			if err := removeHidden(list); err != nil {
				t.Fatal(err)
			}
			var got string
			_ = meta.EachListItem(list, func(object runtime.Object) error {
				got += object.(metav1.Object).GetName()
				return nil
			})
			if got != test.want {
				t.Errorf("of %T %q is left %q, want %q", list, test.given, got, test.want)
			}
		}
	}
	if err := removeHidden(&corev1.Pod{}); err == nil {
		t.Error("what is no list has something left")
	}
}

// Only hidden objects have the field, and nobody else's set is changed.
func TestWithState(t *testing.T) {
	theirs := fields.Set{"metadata.name": "a"}
	attributes := withState(func(object runtime.Object) (labels.Set, fields.Set, error) {
		if object == nil {
			return nil, nil, errors.New("no object")
		}
		return labels.Set{"l": ""}, theirs, nil
	})
	_, visible, err := attributes(newPod("a", nil))
	if err != nil || !initialized.Matches(visible) || len(visible) != 1 {
		t.Errorf("what isn't hidden has %v, %v", visible, err)
	}
	_, invisible, err := attributes(newPod("a", waiting("a.example.com")))
	if err != nil || initialized.Matches(invisible) || invisible["metadata.name"] != "a" || len(theirs) != 1 {
		t.Errorf("what is hidden has %v, %v", invisible, err)
	}
	if _, _, err := attributes(nil); err == nil {
		t.Error("the error is lost")
	}
}

// Objects that aren't hidden cost no allocation, typed or not.
func TestAllocatesNothing(t *testing.T) {
	list := &corev1.PodList{Items: slices.Repeat([]corev1.Pod{*newPod("a", map[string]string{"a": "b"})}, 100)}
	widgets := &unstructured.UnstructuredList{Items: slices.Repeat(
		[]unstructured.Unstructured{*custom(map[string]any{"annotations": map[string]any{"a": "b"}})}, 100)}
	for name, f := range map[string]func(){
		"get":         func() { hidden(&list.Items[0]) },
		"custom":      func() { hidden(&widgets.Items[0]) },
		"list":        func() { _ = removeHidden(list) },
		"custom list": func() { _ = removeHidden(widgets) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkList(b *testing.B) {
	list := &corev1.PodList{Items: slices.Repeat([]corev1.Pod{*newPod("a", map[string]string{"a": "b"})}, 1000)}
	b.ReportAllocs()
	for b.Loop() {
		if err := removeHidden(list); err != nil {
			b.Fatal(err)
		}
	}
}
