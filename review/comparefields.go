// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/review/suite"
)

// FieldChange is a field that two versions store differently.
type FieldChange struct {
	Field string `json:"field"`
	From  any    `json:"from,omitempty"`
	To    any    `json:"to,omitempty"`
	// Added says that the first version doesn't store the field.
	Added bool `json:"added,omitempty"`
	// Removed says that the second version doesn't store the field.
	Removed bool `json:"removed,omitempty"`
}

// made stands for a value that a server makes anew for each object.
const made = "(made by the server)"

// tokenVolumePrefix begins the names that ServiceAccount gives to volumes, and tokenVolume matches them.
const tokenVolumePrefix = "kube-api-access-"

var tokenVolume = regexp.MustCompile(`^` + tokenVolumePrefix + `[a-z0-9]{5}$`)

// comparableObject returns the stored object of a result without its status and without values that differ
// each time, or nil if there is no object.
func comparableObject(r *Result) map[string]any {
	if r.Stored == nil {
		return nil
	}
	object := runtime.DeepCopyJSON(r.Stored.Object)
	delete(object, "status")
	sent := r.Sent
	if sent == nil {
		sent = &unstructured.Unstructured{Object: map[string]any{}}
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
			delete(metadata, field)
		}
		if sent.GetName() == "" {
			delete(metadata, "name")
		}
	}
	if object["kind"] == "Service" {
		for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			replaceMade(object, sent.Object, "spec", field)
		}
		ports, _, _ := unstructured.NestedSlice(sent.Object, "spec", "ports")
		stored, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "ports")
		list, _ := stored.([]any)
		for i := range list {
			var given any
			if i < len(ports) {
				given = ports[i]
			}
			replaceMade(list[i], given, "nodePort")
		}
	}
	uid := string(r.Stored.GetUID())
	replaced, _ := replaceStrings(object, func(text string) string {
		if tokenVolume.MatchString(text) {
			return tokenVolumePrefix
		}
		if uid != "" {
			text = strings.ReplaceAll(text, uid, made)
		}
		return text
	}).(map[string]any)
	return replaced
}

// replaceMade replaces a field that an object has, and that wasn't sent.
func replaceMade(object, sent any, path ...string) {
	fields, _ := object.(map[string]any)
	given, _ := sent.(map[string]any)
	if len(path) > 1 {
		replaceMade(fields[path[0]], given[path[0]], path[1:]...)
		return
	}
	if _, ok := fields[path[0]]; ok && isEmpty(given[path[0]]) {
		fields[path[0]] = made
	}
}

// replaceStrings replaces all strings in a value of JSON, except for the keys of maps.
func replaceStrings(value any, replace func(string) string) any {
	switch v := value.(type) {
	case string:
		return replace(v)
	case map[string]any:
		for key, part := range v {
			v[key] = replaceStrings(part, replace)
		}
	case []any:
		for i, part := range v {
			v[i] = replaceStrings(part, replace)
		}
	}
	return value
}

// fieldChanges returns the fields that differ between two values of JSON, by their paths. Lists of
// different lengths differ as a whole.
func fieldChanges(path string, from, to any) []FieldChange {
	switch before := from.(type) {
	case map[string]any:
		after, ok := to.(map[string]any)
		if !ok {
			break
		}
		names := map[string]bool{}
		for _, fields := range []map[string]any{before, after} {
			for name := range fields {
				names[name] = true
			}
		}
		var changes []FieldChange
		for _, name := range slices.Sorted(maps.Keys(names)) {
			old, had := before[name]
			now, has := after[name]
			field := name
			if strings.Contains(name, ".") {
				field = "[" + name + "]"
			} else if path != "" {
				field = "." + name
			}
			switch {
			case had && has:
				changes = append(changes, fieldChanges(path+field, old, now)...)
			case has:
				changes = append(changes, FieldChange{Field: path + field, To: now, Added: true})
			default:
				changes = append(changes, FieldChange{Field: path + field, From: old, Removed: true})
			}
		}
		return changes
	case []any:
		after, ok := to.([]any)
		if !ok || len(after) != len(before) {
			break
		}
		var changes []FieldChange
		for i := range before {
			changes = append(changes, fieldChanges(fmt.Sprintf("%s[%d]", path, i), before[i], after[i])...)
		}
		return changes
	}
	if suite.Equal(from, to) {
		return nil
	}
	return []FieldChange{{Field: path, From: from, To: to}}
}
