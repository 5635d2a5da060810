// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/webhook/review"
	"gatehouse.dev/webhook/server"
)

func request(object string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Object: runtime.RawExtension{Raw: []byte(object)},
	}
}

// The patch has what the webhook changed and nothing else, and does what it should to the object as
// it was sent.
func TestPatched(t *testing.T) {
	label := func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, "a.example.com/b~c", "d") }
	const containers = `{"spec":{"containers":[{"name":"a","future":1},{"name":"b","future":2},{"name":"c",` +
		`"future":3}]}}`
	for _, c := range []struct {
		name   string
		object string
		change func(*corev1.Pod)
		patch  string
		want   string // of the object after the patch
	}{
		{
			name: "the first label", object: `{"metadata":{"name":"web"}}`, change: label,
			patch: `[{"op":"add","path":"/metadata/labels","value":{"a.example.com/b~c":"d"}}]`,
			want:  `{"metadata":{"name":"web","labels":{"a.example.com/b~c":"d"}}}`,
		},
		{
			name: "another label", object: `{"metadata":{"labels":{"x":"y"}}}`, change: label,
			patch: `[{"op":"add","path":"/metadata/labels/a.example.com~1b~0c","value":"d"}]`,
			want:  `{"metadata":{"labels":{"x":"y","a.example.com/b~c":"d"}}}`,
		},
		{
			name: "labels were null", object: `{"metadata":{"labels":null}}`, change: label,
			patch: `[{"op":"add","path":"/metadata/labels","value":{"a.example.com/b~c":"d"}}]`,
			want:  `{"metadata":{"labels":{"a.example.com/b~c":"d"}}}`,
		},
		{
			name: "no metadata was sent", object: `{"kind":"Pod"}`, change: label,
			patch: `[{"op":"add","path":"/metadata","value":{"labels":{"a.example.com/b~c":"d"}}}]`,
			want:  `{"kind":"Pod","metadata":{"labels":{"a.example.com/b~c":"d"}}}`,
		},
		{
			name: "a value", object: `{"spec":{"nodeName":"a","containers":null}}`,
			change: func(pod *corev1.Pod) { pod.Spec.NodeName = "b" },
			patch:  `[{"op":"replace","path":"/spec/nodeName","value":"b"}]`,
			want:   `{"spec":{"nodeName":"b","containers":null}}`,
		},
		{
			name: "removal", object: `{"spec":{"nodeName":"a"}}`,
			change: func(pod *corev1.Pod) { pod.Spec.NodeName = "" },
			patch:  `[{"op":"remove","path":"/spec/nodeName"}]`, want: `{"spec":{}}`,
		},
		{
			name:   "a field that the type doesn't know",
			object: `{"spec":{"nodeName":"a","future":{"n":12345678901234567890.10}},"status":{"future":1}}`,
			change: func(pod *corev1.Pod) { pod.Spec.NodeName = "b" },
			patch:  `[{"op":"replace","path":"/spec/nodeName","value":"b"}]`,
			want:   `{"spec":{"nodeName":"b","future":{"n":12345678901234567890.10}},"status":{"future":1}}`,
		},
		{
			name: "one of several", object: containers,
			change: func(pod *corev1.Pod) { pod.Spec.Containers[1].Image = "nginx" },
			patch:  `[{"op":"add","path":"/spec/containers/1/image","value":"nginx"}]`,
			want: `{"spec":{"containers":[{"name":"a","future":1},{"name":"b","future":2,"image":"nginx"},` +
				`{"name":"c","future":3}]}}`,
		},
		{
			name: "one more before", object: containers,
			change: func(pod *corev1.Pod) {
				pod.Spec.Containers = append([]corev1.Container{{Name: "first"}}, pod.Spec.Containers...)
			},
			patch: `[{"op":"add","path":"/spec/containers/0","value":{"name":"first","resources":{}}}]`,
			want: `{"spec":{"containers":[{"name":"first","resources":{}},{"name":"a","future":1},{"name":"b",` +
				`"future":2},{"name":"c","future":3}]}}`,
		},
		{
			name: "one more behind", object: containers,
			change: func(pod *corev1.Pod) {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "last"})
			},
			patch: `[{"op":"add","path":"/spec/containers/3","value":{"name":"last","resources":{}}}]`,
			want: `{"spec":{"containers":[{"name":"a","future":1},{"name":"b","future":2},{"name":"c","future":3},` +
				`{"name":"last","resources":{}}]}}`,
		},
		{
			name: "one less", object: containers,
			change: func(pod *corev1.Pod) {
				pod.Spec.Containers = append(pod.Spec.Containers[:1], pod.Spec.Containers[2:]...)
			},
			patch: `[{"op":"remove","path":"/spec/containers/1"}]`,
			want:  `{"spec":{"containers":[{"name":"a","future":1},{"name":"c","future":3}]}}`,
		},
		{
			name: "two less", object: containers,
			change: func(pod *corev1.Pod) { pod.Spec.Containers = pod.Spec.Containers[:1] },
			patch:  `[{"op":"remove","path":"/spec/containers/1"},{"op":"remove","path":"/spec/containers/1"}]`,
			want:   `{"spec":{"containers":[{"name":"a","future":1}]}}`,
		},
		{
			name: "another name", object: containers,
			change: func(pod *corev1.Pod) { pod.Spec.Containers[1].Name = "z" },
			patch:  `[{"op":"replace","path":"/spec/containers/1","value":{"name":"z","resources":{}}}]`,
			want: `{"spec":{"containers":[{"name":"a","future":1},{"name":"z","resources":{}},{"name":"c",` +
				`"future":3}]}}`,
		},
		{name: "nothing", object: containers, change: func(*corev1.Pod) {}, want: containers},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.object)
			pod, err := server.Object[corev1.Pod](r)
			if err != nil {
				t.Fatal(err)
			}
			c.change(pod)
			response := server.Patched(r, pod)
			if !response.Allowed || string(response.Patch) != c.patch {
				t.Errorf("allowed: %t, patch\n%s\nwant\n%s", response.Allowed, response.Patch, c.patch)
			}
			if (response.PatchType != nil) != (c.patch != "") {
				t.Errorf("patch type %v", response.PatchType)
			}
			if diff := cmp.Diff(document(t, []byte(c.want)),
				document(t, apply(t, response.Patch, c.object))); diff != "" {
				t.Errorf("patched (-want +got)\n%s", diff)
			}
		})
	}
}

// One webhook labels objects of all kinds.
func TestPatchedOfAnyKind(t *testing.T) {
	const object = `{"kind":"Whatever","apiVersion":"example.com/v1","metadata":{"name":"a"},"spec":{"metadata":[1,` +
		`null,"x"]}}`
	const patch = `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`
	partial, err := server.Object[metav1.PartialObjectMetadata](request(object))
	if err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataLabel(&partial.ObjectMeta, "a", "b")
	if got := server.Patched(request(object), partial); string(got.Patch) != patch {
		t.Errorf("metadata only: %s, want %s", got.Patch, patch)
	}
	untyped, err := server.Object[unstructured.Unstructured](request(object))
	if err != nil {
		t.Fatal(err)
	}
	untyped.SetLabels(map[string]string{"a": "b"})
	if got := server.Patched(request(object), untyped); string(got.Patch) != patch {
		t.Errorf("unstructured: %s, want %s", got.Patch, patch)
	}
}

func TestObjectErrors(t *testing.T) {
	remove := &admissionv1.AdmissionRequest{Operation: admissionv1.Delete, Kind: metav1.GroupVersionKind{Kind: "Pod"}}
	remove.OldObject.Raw = []byte(podWeb)
	if pod, err := server.OldObject[corev1.Pod](remove); err != nil || pod.Name != "web" {
		t.Errorf("old object %v, %v", pod, err)
	}
	_, absent := server.Object[corev1.Pod](remove)
	_, absentOld := server.OldObject[corev1.Pod](request(podWeb))
	_, wrong := server.Object[corev1.Pod](request(`{"metadata":{"name":1}}`))
	_, otherCase := server.Object[corev1.Pod](request(`{"Metadata":{"name":1}}`))
	for _, c := range []struct {
		err  error
		want string
	}{
		{absent, "request.object: Required value: a request with operation DELETE has none"},
		{absentOld, "request.oldObject: Required value: a request with operation CREATE has none"},
		{wrong,
			"request.object: Invalid value: decoding a Pod into v1.Pod: json: cannot unmarshal number into Go " +
				"struct field ObjectMeta.metadata.name of type string"},
	} {
		if !apierrors.IsBadRequest(c.err) || c.err.Error() != c.want {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
	if otherCase != nil {
		t.Errorf("a field in another case is no field of the type: %v", otherCase)
	}
	for name, response := range map[string]server.Response{
		"no object":   server.Patched(remove, &corev1.Pod{}),
		"object gone": server.Patched[corev1.Pod](request(podWeb), nil),
		"object without JSON": server.Patched(request(podWeb), &struct {
			C func() `json:",omitempty"`
		}{}),
	} {
		if response.Allowed || response.Result.Message == "" || response.Patch != nil {
			t.Errorf("%s: %+v", name, response)
		}
	}
}

// From any object to any other the patch applies, and makes the other one of it: all of it where
// the type is a map, what the type knows of it otherwise.
func FuzzPatched(f *testing.F) {
	f.Add(podWeb, `{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a/b~":""}},"spec":{"containers":[]}}`)
	f.Add(`{"a":[1,2,3,[4]],"b":null,"c":{"d":1e400}}`, `{"a":[2,3,[5,4],1,2],"b":{},"c":null}`)
	f.Add(`{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`,
		`{"spec":{"containers":[{"name":"b"},{"name":"a"},{"name":{"c":[]}}]}}`)
	f.Add(`{"":{"":1}}`, `{"":{"":{"":1}},"/":0,"~1":0}`)
	f.Add(`{"metadata":null,"spec":{"containers":null,"tolerations":[null]}}`,
		`{"metadata":{"labels":{}},"spec":{"tolerations":[{"key":"a"}]}}`)
	f.Fuzz(func(t *testing.T, from, to string) {
		var before, after map[string]any
		if json.Unmarshal([]byte(from), &before) != nil || json.Unmarshal([]byte(to), &after) != nil || before == nil ||
			after == nil {
			return
		}
		r := request(from)
		response := server.Patched(r, &after)
		if !response.Allowed {
			t.Fatalf("from %s to %s: %+v", from, to, response.Result)
		}
		if diff := cmp.Diff(document(t, encoded(t, after)), document(t, apply(t, response.Patch, from))); diff != "" {
			t.Errorf("from %s to %s with %s (-want +got)\n%s", from, to, response.Patch, diff)
		}

		var pod corev1.Pod
		if kjson.UnmarshalCaseSensitivePreserveInts([]byte(to), &pod) != nil {
			return
		}
		if response := server.Patched(r, &pod); response.Allowed {
			var got corev1.Pod
			if err := kjson.UnmarshalCaseSensitivePreserveInts(apply(t, response.Patch, from), &got); err != nil {
				t.Fatal(err)
			}
			if want, got := string(encoded(t, pod)), string(encoded(t, got)); got != want {
				t.Errorf("from %s with %s:\n%s, want\n%s", from, response.Patch, got, want)
			}
		}
	})
}

// apply does what an API server does with a patch.
func apply(t *testing.T, data []byte, object string) []byte {
	t.Helper()
	if data == nil {
		return []byte(object)
	}
	patch, err := review.DecodePatch(data)
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	patched, err := review.Apply(patch, []byte(object))
	if err != nil {
		t.Fatalf("%v: %s to %s", err, data, object)
	}
	return patched
}

func document(t *testing.T, data []byte) any {
	t.Helper()
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return document
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
