// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// customInterfaces are those of a custom resource: the creater makes unstructured objects of any kind,
// and the typer doesn't know the kinds of subresources.
type customInterfaces struct{ admission.ObjectInterfaces }

func (customInterfaces) GetObjectCreater() runtime.ObjectCreater { return unstructuredCreater{} }

type unstructuredCreater struct{}

func (unstructuredCreater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// A patch leaves the scale of a custom resource in its Go type.
func TestPatchScaleOfCustomResource(t *testing.T) {
	scale := &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	object := NewObject(scale, scale.GroupVersionKind(), nil,
		customInterfaces{admission.NewObjectInterfacesFromScheme(runtime.NewScheme())}, builtin)
	changed, err := object.Patch(patchOf(t, "[{op: replace, path: /spec/replicas, value: 5}]"))
	if err != nil || !changed {
		t.Fatalf("changed: %t, %v", changed, err)
	}
	patched, ok := object.Object().(*autoscalingv1.Scale)
	if !ok {
		t.Fatalf("the object is a %T now", object.Object())
	}
	if patched.Spec.Replicas != 5 || patched.Name != "a" || scale.Spec.Replicas != 2 {
		t.Errorf("patched to %+v, from %+v", patched, scale)
	}
}
