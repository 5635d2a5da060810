// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
)

// server is a server that says of its kinds what is in paths.
type server struct{ openapi.Client }

func (s server) OpenAPIV3() openapi.Client { return s.Client }

// builtin are the schemas of Kubernetes' own kinds, read once.
var builtin = NewSchemas(server{openapitest.NewEmbeddedFileClient()})

// newObject returns what is written in YAML, in its Go type if it has one.
func newObject(t testing.TB, text string, schemas *Schemas) *Object {
	t.Helper()
	object := parse(t, text)
	return NewObject(object, object.GetObjectKind().GroupVersionKind(), nil,
		admission.NewObjectInterfacesFromScheme(scheme.Scheme), schemas)
}

func parse(t testing.TB, text string) runtime.Object {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	// numbers as the API has them
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	if !scheme.Scheme.Recognizes(u.GroupVersionKind()) {
		return u
	}
	object, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// configuration is a configuration written in YAML, numbers as CEL has them.
func configuration(t testing.TB, text string) map[string]any {
	t.Helper()
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte("{apiVersion: v1, kind: X, configuration: " + text + "}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u.Object["configuration"].(map[string]any)
}

func patchOf(t testing.TB, text string) jsonpatch.Patch {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		t.Fatal(err)
	}
	return patch
}

func contentOf(t testing.TB, object runtime.Object) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.DeepCopyJSON(content)
}
