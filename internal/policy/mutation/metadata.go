// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/jsonloss"
)

// edits are the labels and annotations that a configuration sets, by the name of the field.
type edits map[string]map[string]string

// metadataEdits returns the labels and annotations that a configuration sets. ok is false if the
// configuration sets anything else or isn't valid.
func metadataEdits(configuration map[string]any) (_ edits, ok bool) {
	metadata, ok := configuration["metadata"].(map[string]any)
	if !ok || len(configuration) != 1 || len(metadata) == 0 {
		return nil, false
	}
	found := make(edits, len(metadata))
	for field, value := range metadata {
		values, ok := value.(map[string]any)
		if !ok || len(values) == 0 || field != "labels" && field != "annotations" {
			return nil, false
		}
		texts := make(map[string]string, len(values))
		for key, value := range values {
			if texts[key], ok = value.(string); !ok {
				return nil, false
			}
		}
		found[field] = texts
	}
	return found, true
}

// hasMetadata reports whether the object has labels and annotations, and whether these are valid.
// Unstructured content may have anything in their place.
func (o *Object) hasMetadata() bool {
	if u, ok := o.object.(*unstructured.Unstructured); ok {
		metadata, ok := u.Object["metadata"].(map[string]any)
		if !ok {
			return false
		}
		for _, field := range []string{"labels", "annotations"} {
			if _, _, err := unstructured.NestedStringMap(metadata, field); err != nil {
				return false
			}
		}
		return true
	}
	_, ok := o.object.(metav1.Object)
	return ok
}

// editMetadata sets labels and annotations. It replaces the object and its content by copies, which
// share what the edits don't reach.
func (o *Object) editMetadata(e edits) (changed bool, err error) {
	if err := o.dropLost(); err != nil {
		return false, err
	}
	o.setDefaults()
	object := o.object.(metav1.Object)
	changed = changesAny(e["labels"], object.GetLabels()) || changesAny(e["annotations"], object.GetAnnotations())
	if !changed {
		return false, nil
	}
	if u, ok := o.object.(*unstructured.Unstructured); ok {
		o.object = &unstructured.Unstructured{Object: editedContent(u.Object, e)}
		return true, nil
	}
	if o.content != nil {
		o.content = editedContent(o.content, e)
	}
	o.object = shallowCopy(o.object)
	object = o.object.(metav1.Object)
	if labels := e["labels"]; labels != nil {
		object.SetLabels(mergeMaps(object.GetLabels(), labels))
	}
	if annotations := e["annotations"]; annotations != nil {
		object.SetAnnotations(mergeMaps(object.GetAnnotations(), annotations))
	}
	return true, nil
}

// dropLost replaces a typed object by the one that its JSON is, if that is another.
func (o *Object) dropLost() error {
	if _, ok := o.object.(*unstructured.Unstructured); ok || !jsonloss.Has(reflect.ValueOf(o.object)) {
		return nil
	}
	content, err := o.Content()
	if err != nil {
		return err
	}
	read := &unstructured.Unstructured{Object: maps.Clone(content)}
	read.SetGroupVersionKind(o.kind)
	object, err := o.interfaces.GetObjectConvertor().ConvertToVersion(read, o.kind.GroupVersion())
	if err != nil {
		return err
	}
	o.replaceWith(object)
	return nil
}

// changesAny reports whether values has a key that present lacks, or has with another value.
func changesAny(values, present map[string]string) bool {
	for key, value := range values {
		if now, ok := present[key]; !ok || now != value {
			return true
		}
	}
	return false
}

func mergeMaps(a, b map[string]string) map[string]string {
	all := make(map[string]string, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func editedContent(content map[string]any, e edits) map[string]any {
	content = maps.Clone(content)
	metadata, _ := content["metadata"].(map[string]any)
	metadata = cloneWithRoom(metadata, len(e))
	content["metadata"] = metadata
	for field, values := range e {
		present, _ := metadata[field].(map[string]any)
		all := cloneWithRoom(present, len(values))
		for key, value := range values {
			all[key] = value
		}
		metadata[field] = all
	}
	return content
}

// cloneWithRoom returns a copy of a map with room for more keys.
func cloneWithRoom(m map[string]any, more int) map[string]any {
	copied := make(map[string]any, len(m)+more)
	maps.Copy(copied, m)
	return copied
}
