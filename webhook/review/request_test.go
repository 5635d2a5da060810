// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestVersion(t *testing.T) {
	for _, test := range []struct {
		accepted []string
		want     string
	}{
		{[]string{"v1"}, "v1"},
		{[]string{"v1beta1", "v1"}, "v1beta1"},
		{[]string{"v2", "v1", "v1beta1"}, "v1"},
		{[]string{"v2", "V1"}, ""},
		{nil, ""},
	} {
		if got := Version(test.accepted); got != test.want {
			t.Errorf("of %q we speak %q, want %q", test.accepted, got, test.want)
		}
	}
}

// request is one with every field set.
func request() *admissionv1.AdmissionRequest {
	dryRun := true
	return &admissionv1.AdmissionRequest{
		UID:                "not looked at",
		Kind:               metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:           metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		SubResource:        "status",
		RequestKind:        &metav1.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"},
		RequestResource:    &metav1.GroupVersionResource{Group: "apps", Version: "v1beta1", Resource: "deployments"},
		RequestSubResource: "status",
		Name:               "name",
		Namespace:          "namespace",
		Operation:          admissionv1.Update,
		UserInfo: authenticationv1.UserInfo{Username: `a "user" <of> ours`, UID: "1", Groups: []string{"g"},
			Extra: map[string]authenticationv1.ExtraValue{"key": {"value"}}},
		DryRun: &dryRun,
	}
}

// A review is what Kubernetes sends: what its own types make of the same request.
//
// Source: CreateV1AdmissionReview and CreateV1beta1AdmissionReview in
// k8s.io/apiserver/pkg/admission/plugin/webhook/request.
func TestReview(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": `"<&>`}}}
	custom := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "e/v1", "kind": "E",
		"spec": map[string]any{"n": int64(1)}}}
	options := &metav1.UpdateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"},
		FieldManager: "m"}
	for name, objects := range map[string][3]runtime.Object{
		"typed":   {pod, pod.DeepCopy(), options},
		"custom":  {custom, custom.DeepCopy(), options},
		"create":  {pod, nil, options},
		"delete":  {nil, pod, options},
		"connect": {pod, nil, nil},
		"none":    {},
	} {
		t.Run(name, func(t *testing.T) {
			var encoded [3]runtime.RawExtension
			for i, object := range objects {
				raw, err := EncodeObject(object)
				if err != nil {
					t.Fatal(err)
				}
				encoded[i].Raw = raw
			}
			ours := request()
			ours.Object, ours.OldObject, ours.Options = encoded[0], encoded[1], encoded[2]
			once, err := Encode(ours)
			if err != nil {
				t.Fatal(err)
			}

			v1 := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1",
				Kind: "AdmissionReview"}, Request: request()}
			v1.Request.UID = "the-uid"
			v1.Request.Object.Object, v1.Request.OldObject.Object, v1.Request.Options.Object = objects[0], objects[1],
				objects[2]
			same(t, slices.Concat(once.Review("v1", "the-uid")...), v1)

			// The two versions have the same fields.
			var v1beta1 admissionv1beta1.AdmissionReview
			data, err := json.Marshal(v1)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &v1beta1); err != nil {
				t.Fatal(err)
			}
			v1beta1.APIVersion = "admission.k8s.io/v1beta1"
			v1beta1.Request.Object.Object, v1beta1.Request.OldObject.Object,
				v1beta1.Request.Options.Object = objects[0], objects[1], objects[2]
			same(t, slices.Concat(once.Review("v1beta1", "the-uid")...), v1beta1)
		})
	}
}

// same compares JSON with what a value is in JSON.
func same(t *testing.T, got []byte, value any) {
	t.Helper()
	want, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var gotContent, wantContent any
	if err := json.Unmarshal(got, &gotContent); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal(want, &wantContent); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(gotContent, wantContent) {
		t.Errorf("the review is\n%s\nwant\n%s", got, want)
	}
}

func TestObjectThatIsNoJSON(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "e/v1", "kind": "E",
		"spec": make(chan int)}}
	if _, err := EncodeObject(object); err == nil || !strings.Contains(err.Error(), "unsupported type") {
		t.Errorf("the error is %v", err)
	}
}

func BenchmarkReview(b *testing.B) {
	r := request()
	object, err := EncodeObject(&corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 3)}})
	if err != nil {
		b.Fatal(err)
	}
	r.Object.Raw = object
	once, err := Encode(r)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		once.Review("v1", types.UID("705ab4f5-6393-11e8-b7cc-42010a800002"))
	}
}
