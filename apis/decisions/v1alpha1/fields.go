// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Everyday reports whether a request failed in a way that clients meet now and then and try again:
// the object doesn't exist, exists already, or has changed meanwhile. No plugin refused it.
func Everyday(d *Decision) bool {
	return d.Verdict != Admitted && d.By == "" && (d.Reason == metav1.StatusReasonNotFound ||
		d.Reason == metav1.StatusReasonConflict || d.Reason == metav1.StatusReasonAlreadyExists)
}

// Outcome returns the verdict, or for an everyday answer its reason: NotFound, Conflict or
// AlreadyExists.
func Outcome(d *Decision) string {
	if Everyday(d) {
		return string(d.Reason)
	}
	return string(d.Verdict)
}

// Fields returns the fields of a Decision that field selectors may name. The field verdict is the
// Outcome: verdict=Refused selects no everyday answers, and verdict=Conflict selects the everyday
// answers with that reason.
func Fields(d *Decision) fields.Set {
	owner := d.Request.Owner
	if owner == nil {
		owner = &Owner{}
	}
	return fields.Set{
		"metadata.name":         d.Name,
		"metadata.namespace":    d.Namespace,
		"verdict":               Outcome(d),
		"by":                    d.By,
		"request.user.username": d.Request.User.Username,
		"request.operation":     d.Request.Operation,
		"request.resource":      d.Request.Resource,
		"request.name":          d.Request.Name,
		"request.owner.kind":    owner.Kind,
		"request.owner.name":    owner.Name,
	}
}

var selectable = Fields(&Decision{})

// fieldLabel returns an error for a field that selectors can't name.
func fieldLabel(label, value string) (string, string, error) {
	if _, ok := selectable[label]; !ok {
		return "", "",
			fmt.Errorf("%q is not a known field selector: only %q", label, slices.Sorted(maps.Keys(selectable)))
	}
	return label, value, nil
}

// MarshalJSON returns the JSON.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v.Raw) == 0 {
		return []byte("null"), nil
	}
	return v.Raw, nil
}

// UnmarshalJSON keeps the JSON.
func (v *Value) UnmarshalJSON(data []byte) error {
	v.Raw = bytes.Clone(data)
	return nil
}

// OpenAPISchemaType is that of any value: none.
func (Value) OpenAPISchemaType() []string { return nil }

// OpenAPISchemaFormat is none.
func (Value) OpenAPISchemaFormat() string { return "" }
