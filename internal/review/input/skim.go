// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"
)

// isWanted reports whether a part may have objects that are wanted. To parse it would take much longer than
// to look for its kind.
func (r *Reader) isWanted(text []byte) bool {
	if r.Wanted == nil {
		return true
	}
	kind, ok := skim(text)
	return !ok || strings.HasSuffix(kind.Kind, "List") || r.Wanted(kind)
}

// skim returns the kind of an object's text. It returns false if the text must be parsed to find that out.
func skim(text []byte) (kind schema.GroupVersionKind, ok bool) {
	var found struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		ok = json.UnmarshalCaseSensitivePreserveInts(text, &found) == nil
	} else {
		found.APIVersion, ok = topField(text, "apiVersion")
		if ok {
			found.Kind, ok = topField(text, "kind")
		}
	}
	return schema.FromAPIVersionAndKind(found.APIVersion, found.Kind), ok
}

// topField returns the value of a field of a YAML mapping in block style. It returns false unless exactly one
// line has the field, with a plain value.
func topField(text []byte, name string) (value string, ok bool) {
	indent := len(text) - len(bytes.TrimLeft(text, " "))
	begin := append(append([]byte{}, text[:indent]...), name+":"...)
	for line := range bytes.Lines(text) {
		rest, is := bytes.CutPrefix(line, begin)
		if !is {
			continue
		}
		if value != "" {
			return "", false
		}
		value = string(bytes.TrimSpace(rest))
		if value == "" || strings.ContainsFunc(value, func(r rune) bool {
			return r != '.' && r != '/' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			return "", false
		}
	}
	return value, value != ""
}
