// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package jsondiff_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"gatehouse.dev/internal/jsondiff"
)

type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// What is left of two encodings has the differences that the whole objects have.
func TestDiffering(t *testing.T) {
	for _, empty := range []protobuf{&corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &corev1.ConfigMap{},
		&corev1.Secret{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &appsv1.Deployment{},
		&appsv1.StatefulSet{}, &rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}, &networkingv1.Ingress{},
		&autoscalingv2.HorizontalPodAutoscaler{}, &resourcev1.ResourceClaim{},
		&admissionregistrationv1.ValidatingAdmissionPolicy{}} {
		kind := reflect.TypeOf(empty).Elem()
		t.Run(kind.String(), func(t *testing.T) {
			random := func(seed int64) protobuf {
				object := reflect.New(kind).Interface().(protobuf)
				fill(object, seed)
				return object
			}
			differsAlike(t, random(1), empty)
			differsAlike(t, empty, random(1))
			for seed := range int64(4) {
				differsAlike(t, random(seed), random(seed))
				differsAlike(t, random(seed), random(seed+1))
				before, after := random(seed), random(seed)
				for i, l := range leavesOf(after) {
					if i%7 == int(seed) { // which takes a while
						l.change()
						differsAlike(t, before, after)
						l.undo()
					}
				}
			}
		})
	}
}

// differsAlike compares the differences of two objects with those of what is left of them.
func differsAlike(t *testing.T, before, after protobuf) {
	t.Helper()
	kind := reflect.TypeOf(before).Elem()
	decoded := func(data []byte) any {
		object := reflect.New(kind).Interface().(protobuf)
		if err := object.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		return object
	}
	operations := func(was, now []byte) []jsondiff.Operation {
		of, err := jsondiff.Compare(decoded(was), decoded(now))
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	was, err := before.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	now, err := after.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	want := operations(was, now)
	lessWas, lessNow, err := jsondiff.Differing(kind, was, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, operations(lessWas, lessNow)); diff != "" {
		t.Errorf("-whole +what differs:\n%s", diff)
	}
	if len(want) == 0 && len(lessWas)+len(lessNow) > 0 {
		t.Errorf("%d and %d bytes are left of two that are alike", len(lessWas), len(lessNow))
	}
}

// Data that is no protobuf is an error.
func TestDifferingOfGarbage(t *testing.T) {
	for _, garbage := range []string{"\xff", "\x0a\x05a", "\x0b", "\x00\x01"} {
		if _, _, err := jsondiff.Differing(reflect.TypeFor[corev1.Pod](), []byte(garbage), nil); err == nil {
			t.Errorf("%q is left as it is", garbage)
		}
	}
}

func FuzzDiffering(f *testing.F) {
	for seed := range int64(3) {
		data, err := randomPod(seed).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		was, now, err := jsondiff.Differing(reflect.TypeFor[corev1.Pod](), before, after)
		if err == nil && (len(was) > len(before)*2 || len(now) > len(after)*2) {
			t.Errorf("%d and %d bytes are left of %d and %d", len(was), len(now), len(before), len(after))
		}
	})
}
