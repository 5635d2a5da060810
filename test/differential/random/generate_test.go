// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// documentPart is a part of an OpenAPI document: one resource with a subresource.
const documentPart = `{"paths": {
"/api/v1/namespaces/{namespace}/pods": {"get": {}, "delete": {},
	"post": {"x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Pod"}}},
"/api/v1/namespaces/{namespace}/pods/{name}": {"get": {}, "put": {}, "patch": {}, "delete": {}},
"/api/v1/namespaces/{namespace}/pods/{name}/status": {"get": {}, "put": {}, "patch": {}}},
"schemas": {"Pod": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
	"properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
		"spec": {"allOf": [{"$ref": "#/components/schemas/PodSpec"}]}, "status": {"type": "object"}}},
"PodSpec": {"type": "object", "required": ["containers"], "properties": {"priority": {"type": "integer"},
	"containers": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}}`

func podResource(t *testing.T) *resource {
	t.Helper()
	var document struct {
		Paths   map[string]map[string]json.RawMessage
		Schemas map[string]*schema
	}
	if err := json.Unmarshal([]byte(documentPart), &document); err != nil {
		t.Fatal(err)
	}
	r := readResource("/api/v1/namespaces/{namespace}/pods", document.Paths, document.Schemas)
	if r == nil {
		t.Fatal("no resource")
	}
	return r
}

func TestReadResource(t *testing.T) {
	r := podResource(t)
	if r.collection != "/api/v1/namespaces/r0und/pods" || r.kind.apiVersion() != "v1" || !r.namespaced {
		t.Errorf("read %+v", r)
	}
	if want := []string{"collection GET", "collection POST", "collection DELETE", "GET", "PUT", "PATCH", "DELETE"}; !slices.Equal(r.verbs, want) {
		t.Errorf("verbs %q, want %q", r.verbs, want)
	}
	if want := []string{"status"}; !slices.Equal(r.subresources, want) {
		t.Errorf("subresources %q, want %q", r.subresources, want)
	}
}

// The same random numbers make the same requests, of all verbs.
func TestGenerate(t *testing.T) {
	texts := func(seed uint64) (all []string) {
		for _, r := range generate(rand.New(rand.NewPCG(seed, 1)), []*resource{podResource(t)}, 300) {
			all = append(all, r.tableCase())
		}
		return all
	}
	first := texts(1)
	if !slices.Equal(first, texts(1)) {
		t.Error("the same seed makes other requests")
	}
	if slices.Equal(first, texts(2)) {
		t.Error("another seed makes the same requests")
	}
	for _, begins := range []string{"create(", "update(", "patch(\"merge\"", "patch(\"strategic\"", "patch(\"json\"",
		"patch(\"apply\"", "deleteRequest(", "get("} {
		if !slices.ContainsFunc(first, func(text string) bool { return strings.HasPrefix(text, begins) }) {
			t.Errorf("none of %d requests begins with %s", len(first), begins)
		}
	}
}

// A mutation changes what it says, and leaves the object alone that it is a copy of.
func TestMutate(t *testing.T) {
	r, rnd := podResource(t), rand.New(rand.NewPCG(1, 1))
	object := fromYAML(`kind: Pod, apiVersion: v1, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}`)
	before, changes := clone(object), 0
	for range 500 {
		changed := clone(object).(map[string]any)
		r.mutate(rnd, changed).apply(changed)
		if !reflect.DeepEqual(changed, object) {
			changes++
		}
		if field(changed, "metadata") != nil && field(changed, "kind") != "Pod" {
			t.Fatalf("changed the kind: %v", changed)
		}
	}
	if changes < 400 {
		t.Errorf("only %d of 500 mutations change something", changes)
	}
	if !reflect.DeepEqual(before, any(object)) {
		t.Errorf("the original is now %v", object)
	}
}

func TestMutationPatch(t *testing.T) {
	object := fromYAML(`metadata: {labels: {a/b: c}}, spec: {containers: [{name: c, image: i}, {name: d}]}`)
	image := mutation{path: []any{"spec", "containers", 0, "image"}, value: "j"}
	label := mutation{path: []any{"metadata", "labels", "a/b"}, remove: true}
	for _, test := range []struct {
		kind     string
		mutation mutation
		want     string
	}{
		{"json", image, `[{"op":"add","path":"/spec/containers/0/image","value":"j"}]`},
		{"merge", image, `{"spec":{"containers":[{"image":"j","name":"c"},{"name":"d"}]}}`},
		{"strategic", image, `{"spec":{"containers":[{"image":"j","name":"c"}]}}`},
		{"apply", image, `{"metadata":{"labels":{"a/b":"c"}},"spec":{"containers":[{"image":"j","name":"c"},{"name":"d"}]}}`},
		{"json", label, `[{"op":"remove","path":"/metadata/labels/a~1b"}]`},
		{"merge", label, `{"metadata":{"labels":{"a/b":null}}}`},
		{"apply", label, `{"metadata":{"labels":{}},"spec":{"containers":[{"image":"i","name":"c"},{"name":"d"}]}}`},
	} {
		r := Request{Verb: http.MethodPatch, Kind: test.kind, Body: test.mutation.patch(test.kind, object)}
		if got := r.text(); got != test.want {
			t.Errorf("%s patch of %v: %s, want %s", test.kind, test.mutation.path, got, test.want)
		}
	}
}

// Skeletons are YAML, and of kinds whose collections have the key as their path's end.
func TestSkeletons(t *testing.T) {
	for key, texts := range skeletons {
		if strings.Count(key, "/") < 1 {
			t.Errorf("%s is no version and resource", key)
		}
		for _, text := range texts {
			if object := fromYAML(text); len(object) == 0 && text != "{}" {
				t.Errorf("%s: %q has no fields", key, text)
			}
		}
	}
}

// What has no namespace and decides about other requests has the round's namespace in its name, and
// selects only what is in there.
func TestConfigurationConcernsItsRound(t *testing.T) {
	for seed := range uint64(50) {
		for _, r := range configuration(rand.New(rand.NewPCG(seed, 1))) {
			if !strings.Contains(r.Path, "/namespaces/") && !strings.Contains(fmt.Sprint(field(r.Body, "metadata", "name")), namespaceToken) {
				t.Errorf("seed %d: another round sees %s", seed, r)
			}
			webhooks := strings.HasSuffix(r.Path, "webhookconfigurations") || strings.HasSuffix(r.Path, "policies")
			if webhooks && (!strings.Contains(r.text(), `"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"r0und"}}`) ||
				!strings.Contains(r.text(), `"scope":"Namespaced"`)) {
				t.Errorf("seed %d: another round is decided by %s", seed, r)
			}
		}
	}
}
