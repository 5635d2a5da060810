// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"gatehouse.dev/removed/apis/initializers"
)

// stateField is a field that only hidden objects have, and only within this server: clients can't
// select by it.
const (
	stateField = "gatehouse.dev/initialization"
	pending    = "Pending"
)

var initialized = fields.OneTermNotEqualSelector(stateField, pending)

// hidden reports whether an object waits for initializers.
func hidden(object runtime.Object) bool {
	return annotation(object, initializers.PendingAnnotation) != ""
}

// failure returns why an initializer failed the object, or nothing if none has.
func failure(object runtime.Object) string {
	return annotation(object, initializers.ErrorAnnotation)
}

// mustGo reports whether a hidden object must be removed: it has failed or is deleted.
func mustGo(object runtime.Object) bool {
	if failure(object) != "" {
		return true
	}
	accessor, err := meta.Accessor(object)
	return err == nil && accessor.GetDeletionTimestamp() != nil
}

func annotation(object runtime.Object, key string) string {
	// A custom resource would make a copy of all its annotations to show them.
	if u, ok := object.(*unstructured.Unstructured); ok {
		metadata, _ := u.Object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		value, _ := annotations[key].(string)
		return value
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetAnnotations()[key]
}

// withState returns get with the field that makes watches leave hidden objects out.
func withState(get storage.AttrFunc) storage.AttrFunc {
	return func(object runtime.Object) (labels.Set, fields.Set, error) {
		selectable, set, err := get(object)
		if err != nil || !hidden(object) {
			return selectable, set, err
		}
		// The set may be somebody else's.
		more := make(fields.Set, len(set)+1)
		for name, value := range set {
			more[name] = value
		}
		more[stateField] = pending
		return selectable, more, nil
	}
}

// removeHidden takes hidden objects out of a list.
func removeHidden(list runtime.Object) error {
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(pointer)
	if err != nil {
		return err
	}
	kept := 0
	for i := range items.Len() {
		item := items.Index(i)
		if object, ok := item.Addr().Interface().(runtime.Object); ok && hidden(object) {
			continue
		}
		if kept != i {
			items.Index(kept).Set(item)
		}
		kept++
	}
	if kept < items.Len() {
		items.Set(items.Slice3(0, kept, kept))
	}
	return nil
}
