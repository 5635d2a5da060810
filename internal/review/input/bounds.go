// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/internal/quantity"
)

// maxName is the number of bytes that a name, a kind or a key of an object may have. Servers store names of 253. A
// longer one would be repeated in everything that is said about the object.
const maxName = 1 << 10

// CheckBounds returns an error if tools can't work with an object because of its size: a name, a kind or a key is too
// long, or parsing a quantity would take minutes. No server stores such an object of a kind that it knows.
func CheckBounds(o *unstructured.Unstructured) error {
	for _, field := range []struct{ path, value string }{{"apiVersion", o.GetAPIVersion()}, {"kind", o.GetKind()},
		{"metadata.name", o.GetName()}, {"metadata.generateName", o.GetGenerateName()},
		{"metadata.namespace", o.GetNamespace()}} {
		if len(field.value) > maxName {
			return fmt.Errorf("%s has %d bytes, and at most %d are read: %q", field.path, len(field.value), maxName,
				cut(field.value))
		}
	}
	if key := longKey(o.Object); key != "" {
		return fmt.Errorf("a key has %d bytes, and at most %d are read: %q", len(key), maxName, cut(key))
	}
	if !quantity.HasLong(o.Object) {
		return nil
	}
	typed, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil {
		return nil // nothing in it is parsed as a quantity
	}
	if err := quantity.Check(o.Object, typed); err != nil {
		return fmt.Errorf("a quantity has more than 1024 digits, which no server accepts: %w", err)
	}
	return nil
}

// longKey returns a key of a value, or of what is in it, that is longer than maxName; empty if there is none.
func longKey(value any) string {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if len(key) > maxName {
				return key
			}
			if key := longKey(field); key != "" {
				return key
			}
		}
	case []any:
		for _, element := range value {
			if key := longKey(element); key != "" {
				return key
			}
		}
	}
	return ""
}

// cut returns the beginning of a text that is longer than maxName.
func cut(text string) string {
	if len(text) <= maxName {
		return text
	}
	return strings.ToValidUTF8(text[:maxName], "") + "…"
}

// Shorten returns an error whose text has no more than about 1 KB. Errors of parsers quote what they can't parse.
func Shorten(err error) error {
	if len(err.Error()) <= maxName {
		return err
	}
	return shortError{err}
}

// shortError is an error whose text is cut.
type shortError struct{ error }

// Error implements error.
func (e shortError) Error() string { return cut(e.error.Error()) }

// Unwrap returns the whole error.
func (e shortError) Unwrap() error { return e.error }
