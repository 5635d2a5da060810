package webhook

import (
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/webhook/review"
)

// patchedWhole is what a patch makes of an object on the way that all of it takes through JSON.
func patchedWhole(object runtime.Object, patch jsonpatch.Patch) (runtime.Object, error) {
	data, err := review.EncodeObject(object)
	if err != nil {
		return nil, err
	}
	if data, err = review.Apply(patch, data); err != nil {
		return nil, err
	}
	return decodeLike(object, data)
}

// patchedAlike checks that a patch applied to the fields it is about does what it does to the whole, and leaves the object it is applied to alone.
func patchedAlike(t *testing.T, object runtime.Object, data string) {
	t.Helper()
	patch, err := review.DecodePatch([]byte(data))
	if err != nil {
		return
	}
	before := object.DeepCopyObject()
	want, wantErr := patchedWhole(object, patch)
	got, changed, err := patched(object, patch)
	if (err == nil) != (wantErr == nil) {
		t.Errorf("patch %s of %T: the error is %v, of the whole it is %v", data, object, err, wantErr)
		return
	}
	if err == nil && !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("patch %s makes\n%+v\nof the whole it makes\n%+v", data, got, want)
	}
	if want := !apiequality.Semantic.DeepEqual(object, want); err == nil && changed != want {
		t.Errorf("patch %s: changed is %v, want %v", data, changed, want)
	}
	if !apiequality.Semantic.DeepEqual(object, before) {
		t.Errorf("patch %s has changed the object it was applied to into\n%+v", data, object)
	}
}

func examples() []runtime.Object {
	pod := benchPod()
	pod.Annotations = map[string]string{"a/b": "c", "d~e": "f"}
	return []runtime.Object{
		pod,
		&corev1.ConfigMap{TypeMeta: pod.TypeMeta, Data: map[string]string{"k": "v"}},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "e/v1", "kind": "E", "metadata": map[string]any{"name": "n", "labels": map[string]any{"app": "web"}},
			"spec": map[string]any{"list": []any{int64(1), "two", nil, 3.5}}, "data": "text", "a~b": "c", "": "nameless",
		}},
	}
}

var examplePatches = []string{
	labelPatch("a", "b"),
	`[{"op":"remove","path":"/metadata/labels/app"}]`,
	`[{"op":"add","path":"/metadata/annotations/a~1b","value":"\ud800"},{"op":"replace","path":"/metadata/labels/app","value":"web"}]`,
	`[{"op":"replace","path":"/metadata/annotations/a~1b","value":"x"},{"op":"replace","path":"/metadata/annotations/a~1b","value":"c"}]`,
	`[{"op":"replace","path":"/metadata/annotations/d~01e","value":"x"}]`,
	`[{"op":"replace","path":"/metadata/labels/other","value":"x"}]`,
	`[{"op":"add","path":"/metadata/labels/","value":"x"}]`,
	`[{"op":"add","path":"/metadata/labels/app","value":null}]`,
	`[{"op":"add","path":"/metadata/labels/app","value":1}]`,
	`[{"op":"add","path":"/metadata/labels/app"}]`,
	`[{"op":"add","path":"/metadata/labels/app/x","value":"y"}]`,
	`[{"op":"test","path":"/metadata/labels/app","value":"web"}]`,
	`[{"op":"add","path":"/metadata/labels/x","value":"y"},{"op":"remove","path":"/metadata/labels/app"}]`,
	`[{"op":"replace","path":"/metadata","value":null}]`,
	`[{"op":"remove","path":"/metadata"}]`,
	`[{"op":"remove","path":"/spec"},{"op":"add","path":"/spec","value":{"list":[]}}]`,
	`[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"i"}}]`,
	`[{"op":"add","path":"/spec/list/0","value":{"x":[1,2.5]}}]`,
	`[{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]`,
	`[{"op":"copy","from":"/metadata/name","path":"/spec/hostname"}]`,
	`[{"op":"copy","from":"/metadata/name","path":"/data"}]`,
	`[{"op":"copy","from":"/nothing","path":"/spec"}]`,
	`[{"op":"test","path":"/kind","value":"Pod"}]`,
	`[{"op":"replace","path":"/kind","value":"Other"}]`,
	`[{"op":"remove","path":"/apiVersion"}]`,
	`[{"op":"add","path":"/unknown","value":{"a":1}}]`,
	`[{"op":"add","path":"/a~0b","value":"d"}]`,
	`[{"op":"add","path":"/","value":"d"}]`,
	`[{"op":"replace","path":"","value":{}}]`,
	`[{"op":"add","path":"no path","value":1}]`,
	`[{"op":"test","path":"/status/phase","value":null}]`,
	`[{"op":"test","path":"/status","value":{}}]`,
	`[{"op":"frob","path":"/spec"}]`,
	`[{"op":"remove","path":"/metadata/annotations/a~1b"},{"op":"remove","path":"/metadata/annotations/d~0e"}]`,
	`[{"path":"/metadata"}]`,
	`[null]`,
}

func TestPatchOfAPartIsThatOfTheWhole(t *testing.T) {
	for _, object := range examples() {
		for _, patch := range examplePatches {
			patchedAlike(t, object, patch)
		}
	}
}

func FuzzPatched(f *testing.F) {
	for _, patch := range examplePatches {
		f.Add(patch)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		for _, object := range examples() {
			patchedAlike(t, object, patch)
		}
	})
}
