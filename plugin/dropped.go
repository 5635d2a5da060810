// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Dropped returns the fields that after has, before doesn't, and that aren't stored, as the kind
// doesn't have them. Both are an object of the resource in its version, before and after a change.
// It returns nothing for objects of Go types, which can't have such fields.
func (e *Env) Dropped(resource schema.GroupVersionResource, before, after runtime.Object) []string {
	object, ok := after.(*unstructured.Unstructured)
	if !ok || e.UnknownFields == nil {
		return nil
	}
	unknown := e.UnknownFields(resource, object)
	if old, ok := before.(*unstructured.Unstructured); ok && len(unknown) > 0 {
		known := e.UnknownFields(resource, old)
		unknown = slices.DeleteFunc(unknown, func(field string) bool { return slices.Contains(known, field) })
	}
	return unknown
}
