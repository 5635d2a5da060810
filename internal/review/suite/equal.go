// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// A Difference is a field with another value than the expected one.
type Difference struct {
	Field    string `json:"field"`
	Expected any    `json:"expected"`
	Got      any    `json:"got"`
}

// Absent stands for a missing field.
const Absent = "(absent)"

// Differences compares an object with the expected fields. A mapping must have all expected fields,
// a list as many items as expected, each with its expected fields. Null means absent.
func Differences(path string, expected, got any) []Difference {
	switch want := expected.(type) {
	case nil:
		if got == nil {
			return nil
		}
		return []Difference{{path, Absent, got}}
	case map[string]any:
		has, ok := got.(map[string]any)
		if !ok {
			break
		}
		var all []Difference
		for _, key := range sortedKeys(want) {
			value, ok := has[key]
			if below := join(path, key); ok {
				all = append(all, Differences(below, want[key], value)...)
			} else if want[key] != nil {
				all = append(all, Difference{below, want[key], Absent})
			}
		}
		return all
	case []any:
		has, ok := got.([]any)
		if !ok || len(has) != len(want) {
			break
		}
		var all []Difference
		for i := range want {
			all = append(all, Differences(fmt.Sprintf("%s[%d]", path, i), want[i], has[i])...)
		}
		return all
	default:
		if Equal(expected, got) {
			return nil
		}
	}
	if got == nil {
		got = Absent
	}
	return []Difference{{path, expected, got}}
}

func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func sortedKeys(fields map[string]any) []string {
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Equal reports whether two values of JSON are the same, whatever the types of their numbers.
func Equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return equality.Semantic.DeepEqual(a, b)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Stable returns the fields that are the same in two objects that were made the same way. It leaves
// out metadata that only says when and by which request an object was written.
func Stable(a, b map[string]any) map[string]any {
	common, _ := stable(a, b).(map[string]any)
	if metadata, ok := common["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
			delete(metadata, field)
		}
	}
	return common
}

// stable returns the common part of two values, or nil if they differ.
func stable(a, b any) any {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return nil
		}
		common := map[string]any{}
		for key, value := range a {
			if kept := stable(value, b[key]); kept != nil {
				common[key] = kept
			}
		}
		return common
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return nil
		}
		common := make([]any, len(a))
		for i := range a {
			if common[i] = stable(a[i], b[i]); common[i] == nil {
				return nil
			}
		}
		return common
	}
	if !Equal(a, b) {
		return nil
	}
	return a
}
