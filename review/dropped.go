// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
)

// droppedFields returns the fields of an object that an emulated version has not stored, by their
// paths; none if the program judges as its own version. A server of that version may not know such a
// field, and refuse the object with --validate=strict. The emulation knows it, and drops it as a
// server does whose feature gate is off.
func droppedFields(sent, stored *unstructured.Unstructured) []string {
	if !isEmulating() || sent == nil || stored == nil || !scheme.Scheme.Recognizes(sent.GroupVersionKind()) {
		return nil
	}
	var dropped []string
	for field, value := range sent.Object {
		switch field {
		case "apiVersion", "kind", "metadata", "status": // a server writes them itself, in part
		case "stringData": // goes into data
		default:
			dropped = append(dropped, droppedParts(field, value, stored.Object[field])...)
		}
	}
	slices.Sort(dropped)
	return dropped
}

// NotStoredNote returns a note about the fields that weren't stored.
func (r *Result) NotStoredNote() string {
	judged, _ := judgedVersion()
	return fmt.Sprintf("%s: %s: not stored: %s: off in Kubernetes %s, or unknown there and refused", r.Source, r.Object,
		strings.Join(r.NotStored, ", "), judged)
}

// droppedParts returns the parts of a value that the stored value doesn't have, by their paths. It
// leaves out empty ones, which aren't stored, and lists that have changed their length.
func droppedParts(path string, sent, stored any) []string {
	if isEmpty(sent) {
		return nil
	}
	switch sent := sent.(type) {
	case map[string]any:
		has, ok := stored.(map[string]any)
		if !ok {
			break
		}
		var dropped []string
		for name, value := range sent {
			dropped = append(dropped, droppedParts(path+"."+name, value, has[name])...)
		}
		return dropped
	case []any:
		has, ok := stored.([]any)
		if !ok {
			break
		}
		if len(has) != len(sent) {
			return nil
		}
		var dropped []string
		for i := range sent {
			dropped = append(dropped, droppedParts(fmt.Sprintf("%s[%d]", path, i), sent[i], has[i])...)
		}
		return dropped
	}
	if stored == nil {
		return []string{path}
	}
	return nil
}

// isEmpty reports whether a value of JSON is null, a zero, or has only such values.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case map[string]any:
		for _, part := range v {
			if !isEmpty(part) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return false
}
