// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package jsondiff_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/jsondiff"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "a", Image: "nginx", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}},
				{Name: "b", Image: "redis"},
			},
			Tolerations: []corev1.Toleration{{Key: "x"}},
		},
	}
}

func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"nothing": {func(*corev1.Pod) {}, `null`},
		"a field": {func(p *corev1.Pod) { p.Spec.NodeName = "n1" },
			`[{"op":"add","path":"/spec/nodeName","value":"n1"}]`},
		"a field of an element": {func(p *corev1.Pod) { p.Spec.Containers[1].Image = "redis:7" },
			`[{"op":"replace","path":"/spec/containers/1/image","value":"redis:7"}]`},
		"a label": {func(p *corev1.Pod) { p.Labels["a/b~c"] = "1" },
			`[{"op":"add","path":"/metadata/labels/a~1b~0c","value":"1"}]`},
		"the first annotation": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "1"} },
			`[{"op":"add","path":"/metadata/annotations","value":{"a":"1"}}]`},
		"the last label goes": {func(p *corev1.Pod) { delete(p.Labels, "app") },
			`[{"op":"remove","path":"/metadata/labels"}]`},
		"a container in front": {func(p *corev1.Pod) {
			p.Spec.Containers = append([]corev1.Container{{Name: "proxy"}}, p.Spec.Containers...)
		}, `[{"op":"add","path":"/spec/containers/0","value":{"name":"proxy","resources":{}}}]`},
		"a container goes, another changes, one is added": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "b", Image: "redis:7"}, {Name: "c"}}
		}, `[{"op":"remove","path":"/spec/containers/0"},` +
			`{"op":"replace","path":"/spec/containers/0/image","value":"redis:7"},` +
			`{"op":"add","path":"/spec/containers/1","value":{"name":"c","resources":{}}}]`},
		"containers change places": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "b"}, {Name: "a"}}
		},
			`[{"op":"replace","path":"/spec/containers","value":[{"name":"b","resources":{}},{"name":"a",` +
				`"resources":{}}]}]`},
		"two tolerations are added": {func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "w"}, {Key: "x"}, {Key: "y"}}
		}, `[{"op":"replace","path":"/spec/tolerations/0/key","value":"w"},` +
			`{"op":"add","path":"/spec/tolerations/1","value":{"key":"x"}},` +
			`{"op":"add","path":"/spec/tolerations/2","value":{"key":"y"}}]`},
		"a toleration behind": {func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "y"})
		}, `[{"op":"add","path":"/spec/tolerations/1","value":{"key":"y"}}]`},
		"a quantity in other words": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("0.1")
		}, `null`},
		"a quantity": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1")
		}, `[{"op":"replace","path":"/spec/containers/0/resources/requests/cpu","value":"1"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := pod(), pod()
			test.change(after)
			got, err := jsondiff.Compare(before, after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, encode(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			applies(t, before, after, got)
			differsAlike(t, before, after)
		})
	}
}

// Objects without a type are told apart as those with one.
func TestUntyped(t *testing.T) {
	for name, test := range map[string]struct{ before, after, want string }{
		"nothing":             {`{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}]}`, `null`},
		"null is a value":     {`{"a":null}`, `{}`, `[{"op":"remove","path":"/a"}]`},
		"another type":        {`{"a":1}`, `{"a":"1"}`, `[{"op":"replace","path":"/a","value":"1"}]`},
		"false is a value":    {`{"a":true}`, `{"a":false}`, `[{"op":"replace","path":"/a","value":false}]`},
		"a list of an object": {`{"a":{"b":1}}`, `{"a":[1]}`, `[{"op":"replace","path":"/a","value":[1]}]`},
		"a key to escape": {`{"a":{}}`, `{"a":{"k8s.io/x~w":"d"}}`,
			`[{"op":"add","path":"/a/k8s.io~1x~0w","value":"d"}]`},
		"to null": {`{"a":1}`, `{"a":null}`, `[{"op":"replace","path":"/a","value":null}]`},
		"by name": {`{"a":[{"name":"x","v":1}]}`, `{"a":[{"name":"y"},{"name":"x","v":2}]}`,
			`[{"op":"add","path":"/a/0","value":{"name":"y"}},{"op":"replace","path":"/a/1/v","value":2}]`},
		"two of a name": {`{"a":[{"name":"x"},{"name":"x","v":1}]}`, `{"a":[{"name":"x"},{"name":"x","v":2}]}`,
			`[{"op":"replace","path":"/a/1/v","value":2}]`},
		"shorter": {`{"a":[1,2,3]}`, `{"a":[1]}`, `[{"op":"remove","path":"/a/1"},{"op":"remove","path":"/a/1"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after map[string]any
			if json.Unmarshal([]byte(test.before), &before) != nil ||
				json.Unmarshal([]byte(test.after), &after) != nil {
				t.Fatal("the test's own JSON")
			}
			got, err := jsondiff.Compare(before, after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, encode(t, got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			applies(t, before, after, got)
		})
	}
}

// Whatever two objects are, the patch makes one of the other.
func FuzzOf(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,2,{"name":"x"}]}`,
		`{"a":[{"name":"x"},{"name":"y"}],"b":{"c~/":null}}`,
		`{"a":[[1],[2]],"b":[{"name":1},{"name":"z"}]}`} {
		f.Add(seed, `{"a":[{"name":"y"},{"name":"x","v":[]}]}`)
	}
	f.Fuzz(func(t *testing.T, was, now string) {
		var before, after map[string]any
		if json.Unmarshal([]byte(was), &before) != nil || json.Unmarshal([]byte(now), &after) != nil ||
			before == nil || after == nil {
			return
		}
		got, err := jsondiff.Compare(before, after)
		if err != nil {
			t.Fatal(err)
		}
		applies(t, before, after, got)
	})
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// applies fails the test unless the patch makes after of before.
func applies(t *testing.T, before, after any, operations []jsondiff.Operation) {
	t.Helper()
	patched := []byte(encode(t, before))
	if len(operations) > 0 {
		patch, err := jsonpatch.DecodePatch([]byte(encode(t, operations)))
		if err != nil {
			t.Fatal(err)
		}
		if patched, err = patch.Apply(patched); err != nil {
			t.Fatalf("%s doesn't apply to %s: %v", encode(t, operations), encode(t, before), err)
		}
	}
	var got, want any
	if json.Unmarshal(patched, &got) != nil || json.Unmarshal([]byte(encode(t, after)), &want) != nil {
		t.Fatal("no JSON")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s makes of %s:\n%s", encode(t, operations), encode(t, before), diff)
	}
}

func BenchmarkAlike(b *testing.B) {
	before, after := pod(), pod()
	b.ReportAllocs()
	for b.Loop() {
		if operations, err := jsondiff.Compare(before, after); err != nil || operations != nil {
			b.Fatal(operations, err)
		}
	}
}

func BenchmarkLabel(b *testing.B) {
	before, after := pod(), pod()
	after.Labels["b"] = "1"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsondiff.Compare(before, after); err != nil {
			b.Fatal(err)
		}
	}
}
