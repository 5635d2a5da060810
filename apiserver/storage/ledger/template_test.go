// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// A quota that a template encodes is, byte for byte, what the codec makes of it: or an update that
// changes nothing would be taken for one that does.
func TestTemplateEncodesAsTheCodec(t *testing.T) {
	many := newQuota("pods", "100", "1")
	for _, name := range []corev1.ResourceName{"requests.cpu", "limits.cpu", "requests.memory",
		"count/widgets.example.com"} {
		many.Spec.Hard[name], many.Status.Used[name] = resource.MustParse("100Ti"), resource.MustParse("1500m")
		many.Status.Hard[name] = many.Spec.Hard[name]
	}
	long := newQuota("pods", "100", "1")
	long.Annotations = map[string]string{"long": string(bytes.Repeat([]byte("x"), 20_000)), "other": ""}
	long.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
	for name, q := range map[string]*corev1.ResourceQuota{
		"one name":   newQuota("pods", "100", "1"),
		"many names": many,
		"scopes":     ofClass(newQuota("pods", "100", "1"), "high"),
		"a long one": long,
		"no usage":   newQuota("pods", "100", ""),
		"nothing":    {},
		"hard is old": {Spec: corev1.ResourceQuotaSpec{Hard: many.Spec.Hard},
			Status: newQuota("pods", "100", "1").Status},
	} {
		t.Run(name, func(t *testing.T) {
			encoded := func(q *corev1.ResourceQuota) []byte {
				data, err := runtime.Encode(codec, q)
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
			template := newTemplate(q, encoded(q))
			if template == nil {
				t.Fatal("there is no template")
			}
			for _, amount := range []string{"0", "1", "127", "1500m", "123456789Gi", "12345678901234567890123"} {
				moved := q.DeepCopy()
				for name := range moved.Status.Used {
					moved.Status.Used[name] = resource.MustParse(amount)
				}
				if data, err := template.encode(moved.Status.Used); err != nil || !bytes.Equal(data, encoded(moved)) {
					t.Errorf("using %s: %v\n%q\n%q", amount, err, data, encoded(moved))
				}
			}
		})
	}
}

// Where what is stored isn't what templates make, there is none.
func TestNoTemplate(t *testing.T) {
	q := newQuota("pods", "100", "1")
	data, err := runtime.Encode(codec, q)
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), q)
	if err != nil {
		t.Fatal(err)
	}
	another, err := runtime.Encode(codec, newQuota("pods", "100", "2"))
	if err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string][]byte{
		"JSON":                       inJSON,
		"another quota's":            another,
		"nothing":                    nil,
		"no more than the beginning": []byte("k8s\x00"),
	} {
		if newTemplate(q, stored) != nil {
			t.Errorf("%s: there is a template", name)
		}
	}
	const after = 4 // what comes after the quota is taken as it is
	for i := range len(data) - after {
		if newTemplate(q, data[:i]) != nil {
			t.Errorf("there is a template of the first %d of %d bytes", i, len(data))
		}
	}
}

// Write after write, the quota is stored as the codec would store it: the first one by it, the
// others by its template.
func TestQuotaIsStoredAsByTheCodec(t *testing.T) {
	s := newShop(t)
	a := s.server()
	stored := newQuota("pods", "9", "0")
	stored.Status.Hard["pods"] = resource.MustParse("5") // the limit was raised since
	stored.Annotations = map[string]string{"a": "b"}
	s.put(quotaResource, stored)
	for i := range 3 {
		if _, err := a.write(podResource, nil, newPod(fmt.Sprint(i)), 0); err != nil {
			t.Fatal(err)
		}
		want := stored.DeepCopy()
		want.Status.Hard, want.Status.Used = want.Spec.Hard,
			corev1.ResourceList{"pods": *resource.NewQuantity(int64(i+1), resource.DecimalSI)}
		got, err := s.kv.Get(t.Context(), keyOf(quotaResource, "q"))
		if err != nil || len(got.Kvs) != 1 || !bytes.Equal(got.Kvs[0].Value, s.encode(want)) {
			t.Fatalf("after %d pods: %v, %v\nwant %q", i+1, got, err, s.encode(want))
		}
	}
	tip := a.account("demo").tip
	if tip == nil || tip.entries[0].template == nil {
		t.Error("there is no template")
	}
}

// A charge is a change of nothing but the amounts that are used.
func TestOnlyUsage(t *testing.T) {
	used := func(amount string) *corev1.ResourceQuota { return newQuota("pods", "100", amount) }
	edited := func(edit func(q *corev1.ResourceQuota)) *corev1.ResourceQuota {
		q := used("2")
		edit(q)
		return q
	}
	protobuf, json := codec, legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	for name, test := range map[string]struct {
		other *corev1.ResourceQuota
		codec runtime.Codec
		want  bool
	}{
		"usage": {other: used("2"), codec: protobuf, want: true},
		"a label": {other: edited(func(q *corev1.ResourceQuota) { q.Labels = map[string]string{"a": "b"} }),
			codec: protobuf},
		"a limit": {other: edited(func(q *corev1.ResourceQuota) { q.Spec.Hard["pods"] = resource.MustParse("9") }),
			codec: protobuf},
		"a limit in the status": {other: edited(func(q *corev1.ResourceQuota) {
			q.Status.Hard["pods"] = resource.MustParse("9")
		}), codec: protobuf},
		"no usage": {other: edited(func(q *corev1.ResourceQuota) { q.Status.Used = nil }), codec: protobuf},
		"JSON":     {other: used("2"), codec: json},
	} {
		t.Run(name, func(t *testing.T) {
			one, err := runtime.Encode(test.codec, used("1"))
			if err != nil {
				t.Fatal(err)
			}
			other, err := runtime.Encode(test.codec, test.other)
			if err != nil {
				t.Fatal(err)
			}
			if got := onlyUsage(one, other); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
			if got := onlyUsage(other, one); got != test.want {
				t.Errorf("the other way got %t, want %t", got, test.want)
			}
		})
	}
}
