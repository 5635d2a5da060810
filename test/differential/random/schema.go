// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"gatehouse.dev/test/differential/pair"
)

// A schema is a schema of OpenAPI v3, with the fields that generating values needs.
type schema struct {
	Ref        string             `json:"$ref"`
	AllOf      []*schema          `json:"allOf"`
	OneOf      []*schema          `json:"oneOf"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Values     *schema            `json:"additionalProperties"`
	Enum       []any              `json:"enum"`
	Kinds      []groupVersionKind `json:"x-kubernetes-group-version-kind"`
}

type groupVersionKind struct{ Group, Version, Kind string }

func (k groupVersionKind) apiVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// A resource is a collection that the servers serve.
type resource struct {
	kind groupVersionKind
	// collection is the path, with namespaceToken as its namespace.
	collection   string
	namespaced   bool
	verbs        []string // of HTTP, in capitals, those of the collection and of one object
	subresources []string
	schema       *schema
	definitions  map[string]*schema
}

// name returns the last part of the resource's path.
func (r *resource) name() string { return r.collection[strings.LastIndex(r.collection, "/")+1:] }

// resolve follows references. It returns an empty schema for nil.
func (r *resource) resolve(s *schema) *schema {
	for s != nil {
		switch {
		case s.Ref != "":
			s = r.definitions[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		case len(s.AllOf) == 1:
			s = s.AllOf[0]
		default:
			return s
		}
	}
	return &schema{}
}

// readResources reads the resources from a server's OpenAPI documents, in the order of their paths.
func readResources(ctx context.Context, s pair.Server) ([]*resource, error) {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := readJSON(ctx, s, "/openapi/v3", &index); err != nil {
		return nil, err
	}
	var all []*resource
	for _, name := range slices.Sorted(maps.Keys(index.Paths)) {
		if !strings.HasPrefix(name, "api/") && !strings.HasPrefix(name, "apis/") {
			continue
		}
		var document struct {
			Paths      map[string]map[string]json.RawMessage `json:"paths"`
			Components struct {
				Schemas map[string]*schema `json:"schemas"`
			} `json:"components"`
		}
		if err := readJSON(ctx, s, index.Paths[name].URL, &document); err != nil {
			return nil, err
		}
		for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
			if r := readResource(path, document.Paths, document.Components.Schemas); r != nil {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

func readJSON(ctx context.Context, s pair.Server, path string, into any) error {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return err
	}
	response, err := s.Client.Do(asked)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// readResource returns the resource whose collection is at path, or nil if nothing can be created
// there.
func readResource(path string, paths map[string]map[string]json.RawMessage, definitions map[string]*schema) *resource {
	var create struct {
		Kind groupVersionKind `json:"x-kubernetes-group-version-kind"`
	}
	operations := paths[path]
	if operations["post"] == nil || strings.HasSuffix(path, "}") || strings.Contains(path, "{name}") ||
		json.Unmarshal(operations["post"], &create) != nil {
		return nil
	}
	r := &resource{kind: create.Kind, collection: strings.ReplaceAll(path, "{namespace}", namespaceToken),
		namespaced: strings.Contains(path, "{namespace}"), definitions: definitions}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		if slices.Contains(definitions[name].Kinds, r.kind) {
			r.schema = definitions[name]
		}
	}
	if r.schema == nil {
		return nil
	}
	for _, verb := range []string{"get", "post", "delete"} {
		if operations[verb] != nil {
			r.verbs = append(r.verbs, "collection "+strings.ToUpper(verb))
		}
	}
	for _, verb := range []string{"get", "put", "patch", "delete"} {
		if paths[path+"/{name}"][verb] != nil {
			r.verbs = append(r.verbs, strings.ToUpper(verb))
		}
	}
	for other := range paths {
		if sub, ok := strings.CutPrefix(other, path+"/{name}/"); ok && !strings.Contains(sub, "/") {
			r.subresources = append(r.subresources, sub)
		}
	}
	slices.Sort(r.subresources)
	return r
}

// maxDepth bounds how deep generated values are.
const maxDepth = 6

// value returns a random value of the schema. Fields that aren't required are there with a probability
// that gets smaller with the depth.
func (r *resource) value(rnd *rand.Rand, s *schema, name string, depth int) any {
	s = r.resolve(s)
	if len(s.Enum) > 0 {
		return s.Enum[rnd.IntN(len(s.Enum))]
	}
	if len(s.OneOf) > 0 {
		return r.value(rnd, s.OneOf[rnd.IntN(len(s.OneOf))], name, depth)
	}
	switch {
	case s.Type == "object" && s.Properties == nil:
		values := map[string]any{}
		for range rnd.IntN(2) {
			values[pick(rnd, plainWords...)] = r.value(rnd, s.Values, name, depth+1)
		}
		return values
	case s.Type == "object":
		return r.objectValue(rnd, s, depth)
	case s.Type == "array":
		values := []any{}
		for range 1 + rnd.IntN(2) {
			if depth < maxDepth {
				values = append(values, r.value(rnd, s.Items, name, depth+1))
			}
		}
		return values
	case s.Type == "integer", s.Type == "number":
		return pick[any](rnd, 0, 1, 2, 80, 1000)
	case s.Type == "boolean":
		return rnd.IntN(2) == 0
	case s.Format == "byte":
		return base64.StdEncoding.EncodeToString([]byte(pick(rnd, plainWords...)))
	case s.Format == "date-time":
		return pick(rnd, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z")
	}
	return textFor(rnd, name)
}

// givenByServer are fields of metadata that tests don't set at random. A generated name differs from
// server to server, and so do versions.
var givenByServer = []string{"generateName", "managedFields", "resourceVersion", "uid", "creationTimestamp", "selfLink"}

func (r *resource) objectValue(rnd *rand.Rand, s *schema, depth int) map[string]any {
	object := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		required := slices.Contains(s.Required, key)
		if slices.Contains(givenByServer, key) {
			continue
		}
		if depth >= maxDepth && !required || depth >= 2*maxDepth {
			continue
		}
		if required || rnd.IntN(3+len(s.Properties)/3) < 2-depth/4 {
			object[key] = r.value(rnd, s.Properties[key], key, depth+1)
		}
	}
	return object
}

var plainWords = []string{"a", "b", "c", "example.com/x", "app"}

// textFor returns a text that a field of this name may have.
func textFor(rnd *rand.Rand, name string) string {
	lower := strings.ToLower(name)
	switch {
	case strings.HasSuffix(lower, "namespace"):
		return pick(rnd, namespaceToken, "default")
	case strings.Contains(lower, "ip") && len(lower) < 12:
		return pick(rnd, "192.0.2.1", "2001:db8::1", "10.0.0.0/8")
	case strings.Contains(lower, "cidr"):
		return pick(rnd, "192.0.2.0/24", "2001:db8::/64")
	case strings.HasSuffix(lower, "apiversion"):
		return pick(rnd, "v1", "apps/v1", "example.com/v1")
	case strings.HasSuffix(lower, "expression"):
		return pick(rnd, "true", "object.metadata.name == 'a'", "object.spec.replicas > 1", "size(object)")
	case strings.HasSuffix(lower, "path"):
		return pick(rnd, "/a", "a/b", "../a")
	case strings.HasSuffix(lower, "kind"):
		return pick(rnd, "Pod", "ConfigMap", "Node", "ServiceAccount")
	case lower == "operator":
		return pick(rnd, "In", "Exists", "Equal", "DoesNotExist", "NotIn", "Gt")
	case strings.HasSuffix(lower, "status") && len(lower) < 8:
		return pick(rnd, "True", "False", "Unknown")
	case slices.Contains([]string{"requests", "limits", "capacity", "allocatable", "hard", "used", "sizelimit",
		"storage", "max", "min", "default", "podfixed"}, lower):
		return pick(rnd, "1", "100m", "1Gi", "500Mi")
	}
	return pick(rnd, "a", "b", "c", "a-1", "example.com/x", "a.b", "x", "Always", "1")
}

// pick returns one of the choices.
func pick[T any](rnd *rand.Rand, choices ...T) T { return choices[rnd.IntN(len(choices))] }
