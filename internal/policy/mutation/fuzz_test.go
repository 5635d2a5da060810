// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/scheme"
)

// FuzzMutations has arbitrary configurations and patches done to an object. Whatever they are, the
// object that was given stays as it is, both forms of the result agree, and after an error it is
// what it was.
func FuzzMutations(f *testing.F) {
	for _, seed := range []string{
		`{"metadata": {"labels": {"a": "b"}}}`, `{"spec": {"replicas": 3}}`, `{"spec": {"selector": null}}`,
		`{"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A"}]}]}}}}`,
		`{"metadata": {"labels": {"a": 1}, "annotations": {}}}`, `{"metadata": {"managedFields": [{"fieldsV1": {}}]}}`,
	} {
		f.Add(seed, `[{"op": "add", "path": "/metadata/labels/x", "value": "y"}]`, true)
	}
	for _, seed := range []string{
		`[{"op": "replace", "path": ""}]`, `[{"op": "add", "path": "/spec", "value": {}}]`,
		`[{"op": "move", "from": "/spec", "path": "/spec/template"}]`, `[{"op": "add", "path": "/-", "value": null}]`,
		`[{"op": "test", "path": "/kind", "value": "Pod"}]`, `[{"op": "add", "path": "/kind", "value": "Pod"}]`,
	} {
		f.Add(`{}`, seed, false)
	}
	objects := []runtime.Object{parse(f, deployment), parse(f, benchPod),
		parse(f, "{apiVersion: bears.example.com/v1, kind: Bear, metadata: {name: b}, spec: {color: brown}}")}
	f.Fuzz(func(t *testing.T, configuration, patch string, configurationFirst bool) {
		for _, given := range objects {
			before := contentOf(t, given)
			object := NewObject(given, given.GetObjectKind().GroupVersionKind(), nil,
				admission.NewObjectInterfacesFromScheme(scheme.Scheme), builtin)
			var content map[string]any
			apply := func() (bool, error) {
				u := &unstructured.Unstructured{}
				if json.Unmarshal([]byte(configuration), &content) != nil {
					return false, nil
				}
				data, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "X", "c": content})
				if err := u.UnmarshalJSON(data); err != nil {
					return false, nil
				}
				content, _ := u.Object["c"].(map[string]any)
				return object.Apply(content)
			}
			edit := func() (bool, error) {
				decoded, err := jsonpatch.DecodePatch([]byte(patch))
				if err != nil || len(decoded) > 20 {
					return false, nil
				}
				return object.Patch(decoded)
			}
			steps := []func() (bool, error){edit, apply}
			if configurationFirst {
				steps = []func() (bool, error){apply, edit}
			}
			for _, step := range steps {
				was := object.Object()
				_, err := step()
				if err != nil && object.Object() != was {
					t.Errorf("after the error %v the object is another one", err)
				}
				content, contentErr := object.Content()
				if contentErr != nil {
					t.Fatal(contentErr)
				}
				whole, wholeErr := runtime.DefaultUnstructuredConverter.ToUnstructured(object.Object())
				if wholeErr != nil {
					t.Fatal(wholeErr)
				}
				a, _ := json.Marshal(content)
				b, _ := json.Marshal(whole)
				if string(a) != string(b) {
					t.Errorf("the content is\n%s\nand the object\n%s", a, b)
				}
			}
			a, _ := json.Marshal(before)
			b, _ := json.Marshal(contentOf(t, given))
			if string(a) != string(b) {
				t.Errorf("the given object was\n%s\nand is\n%s", a, b)
			}
		}
	})
}
