// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// A mutation is one change of a JSON object: the value at a path is set or removed.
type mutation struct {
	path   []any // of strings and ints
	value  any
	remove bool
}

// A place is a value within an object, with its schema.
type place struct {
	path   []any
	value  any
	schema *schema
}

// places returns all values within an object, in a fixed order. The kind, the name and the other
// parts of an object's identity are none of them.
func (r *resource) places(object map[string]any) []place {
	var all []place
	var visit func(p place)
	visit = func(p place) {
		if len(p.path) > 0 {
			all = append(all, p)
		}
		s := r.resolve(p.schema)
		switch value := p.value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				if len(p.path) == 0 && (key == "kind" || key == "apiVersion") ||
					len(p.path) == 1 && p.path[0] == "metadata" && (key == "name" || key == "namespace") {
					continue
				}
				below := s.Properties[key]
				if below == nil {
					below = s.Values
				}
				visit(place{append(slices.Clone(p.path), key), value[key], below})
			}
		case []any:
			for i, element := range value {
				visit(place{append(slices.Clone(p.path), i), element, s.Items})
			}
		}
	}
	visit(place{nil, object, r.schema})
	return all
}

// oddValues are values that are wrong or extreme in most places.
var oddValues = []any{nil, "", " ", "A_", "é", "a/b/c", "-1", "1e30", "1Ei", "0.5m", "2000000000000000000000", "Bogus",
	strings.Repeat("x", 64), strings.Repeat("y", 300), strings.Repeat("a.", 130), 0, -1, 1, 65536, 2147483648.0,
	9.3e18, 1.5, true, false, []any{}, map[string]any{}, []any{""}, map[string]any{"a": "b"}, "*", "0", "100%", "Never",
	"\t\n", "${x}", "../..", "0.0.0.0", "::", "2026-13-01T00:00:00Z"}

// mutate returns a change that makes the object nearly valid, or leaves it valid.
func (r *resource) mutate(rnd *rand.Rand, object map[string]any) mutation {
	places := r.places(object)
	if len(places) == 0 {
		return r.mutateWithin(rnd, object, nil)
	}
	p := places[rnd.IntN(len(places))]
	// Half of the mutations are in the deeper half of the object, where most rules are.
	for range 3 {
		if other := places[rnd.IntN(len(places))]; rnd.IntN(2) == 0 && len(other.path) > len(p.path) {
			p = other
		}
	}
	switch n := rnd.IntN(20); {
	case n < 2:
		return mutation{path: p.path, remove: true}
	case n < 6:
		return mutation{path: p.path, value: clone(pick(rnd, oddValues...))}
	case n < 8 && p.schema != nil:
		name, _ := p.path[len(p.path)-1].(string)
		return mutation{path: p.path, value: r.value(rnd, p.schema, name, len(p.path))}
	}
	return r.mutateWithin(rnd, object, places)
}

// mutateWithin adds something to an object or a list.
func (r *resource) mutateWithin(rnd *rand.Rand, object map[string]any, places []place) mutation {
	places = append(places, place{nil, object, r.schema})
	p := places[rnd.IntN(len(places))]
	for {
		switch value := p.value.(type) {
		case map[string]any:
			return r.mutateMap(rnd, p, value)
		case []any:
			if len(value) > 0 {
				last := value[rnd.IntN(len(value))]
				return mutation{path: append(slices.Clone(p.path), len(value)), value: clone(last)}
			}
		}
		p = places[rnd.IntN(len(places))] // the last one is a map
	}
}

func (r *resource) mutateMap(rnd *rand.Rand, p place, value map[string]any) mutation {
	s := r.resolve(p.schema)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), func(name string) bool {
		return slices.Contains(givenByServer, name) ||
			len(p.path) <= 1 && (name == "name" || name == "namespace" || name == "kind" || name == "apiVersion")
	})
	at := func(key string) []any { return append(slices.Clone(p.path), key) }
	if len(names) > 0 && rnd.IntN(8) > 0 {
		name := names[rnd.IntN(len(names))]
		if rnd.IntN(6) == 0 {
			return mutation{path: at(name), value: clone(pick(rnd, oddValues...))}
		}
		return mutation{path: at(name), value: r.value(rnd, s.Properties[name], name, len(p.path))}
	}
	if len(names) == 0 && s.Values != nil {
		return mutation{path: at(pick(rnd, "a", "B_", "a b", "x/y/z", "memory", strings.Repeat("k", 64))),
			value: r.value(rnd, s.Values, fmt.Sprint(p.path[len(p.path)-1]), len(p.path))}
	}
	return mutation{path: at("unknown"), value: "x"}
}

// apply changes the object, which must be a copy.
func (m mutation) apply(object map[string]any) {
	var parent any = object
	set := func(value any) {}
	for _, key := range m.path[:len(m.path)-1] {
		switch at := parent.(type) {
		case map[string]any:
			name := key.(string)
			parent, set = at[name], func(value any) { at[name] = value }
		case []any:
			index := key.(int)
			parent, set = at[index], func(value any) { at[index] = value }
		}
	}
	switch at := parent.(type) {
	case map[string]any:
		name := m.path[len(m.path)-1].(string)
		if at[name] = m.value; m.remove {
			delete(at, name)
		}
	case []any:
		index := m.path[len(m.path)-1].(int)
		switch {
		case m.remove:
			set(slices.Delete(at, index, index+1))
		case index == len(at):
			set(append(at, m.value))
		default:
			at[index] = m.value
		}
	}
}

// patch returns the change of the object as a patch.
func (m mutation) patch(kind string, object map[string]any) any {
	changed := clone(object).(map[string]any)
	m.apply(changed)
	switch kind {
	case "apply":
		return changed
	case "json":
		pointer := ""
		for _, key := range m.path {
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(key))
		}
		if m.remove {
			return []any{map[string]any{"op": "remove", "path": pointer}}
		}
		return []any{map[string]any{"op": "add", "path": pointer, "value": m.value}}
	}
	return m.mergePatch(kind == "strategic", m.path, object, changed)
}

// mergePatch returns what a merge patch has at a path: an object for each key, and the whole list if
// the path leads through one. A strategic merge patch has only the element, if it has a name.
func (m mutation) mergePatch(strategic bool, path []any, object, changed any) any {
	if len(path) == 0 {
		return m.value
	}
	switch key := path[0].(type) {
	case string:
		if len(path) == 1 && m.remove {
			return map[string]any{key: nil}
		}
		return map[string]any{key: m.mergePatch(strategic, path[1:], field(object, key), field(changed, key))}
	case int:
		before, _ := object.([]any)
		if strategic && len(path) > 1 && key < len(before) {
			if name := field(before[key], "name"); name != nil {
				after, _ := m.mergePatch(true, path[1:], before[key], changed.([]any)[key]).(map[string]any)
				if after["name"] == nil {
					after["name"] = name
				}
				return []any{after}
			}
		}
	}
	return changed
}
