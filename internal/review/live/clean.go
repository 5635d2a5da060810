// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/base64"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/input"
)

// writeFields are the fields of metadata that say when and how an object was written.
var writeFields = []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink"}

// statusFields are the fields of statuses that admission looks at. Others change all the time.
var statusFields = map[schema.GroupKind][]string{
	namespaces:                      {"phase"},
	{Kind: "ResourceQuota"}:         {"hard", "used"},
	{Kind: "PersistentVolumeClaim"}: {"phase", "capacity", "accessModes"},
	{Kind: "PersistentVolume"}:      {"phase"},
	{Kind: "Node"}:                  {"capacity", "allocatable", "declaredFeatures"},
	serviceRanges.GroupKind():       {"conditions"}, // of one that isn't ready services get no IPs
}

// clean removes the fields that only say when and how an object was written. Unless the object is to
// be whole, it also removes kubectl's annotation, and the fields of the status that admission doesn't
// look at.
func clean(object *unstructured.Unstructured, whole bool) {
	fields, _, _ := unstructured.NestedMap(object.Object, "metadata")
	for _, field := range writeFields {
		delete(fields, field)
	}
	object.Object["metadata"] = fields
	if !whole { // what is updated depends on it
		annotations := object.GetAnnotations()
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		if object.SetAnnotations(annotations); len(annotations) == 0 {
			unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
		}
	}
	status, ok := object.Object["status"].(map[string]any)
	if !ok || whole {
		return
	}
	kept := map[string]any{}
	for _, field := range statusFields[object.GroupVersionKind().GroupKind()] {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	if object.Object["status"] = kept; len(kept) == 0 {
		delete(object.Object, "status")
	}
}

// hiddenData is a value in place of a Secret's. It is one that every type of Secret may have.
var hiddenData = base64.StdEncoding.EncodeToString([]byte("{}"))

// hideData returns a Secret with the metadata that was found, and with the type and the keys of the
// manifest. Its values are hiddenData.
func hideData(like *unstructured.Unstructured, found *metav1.PartialObjectMetadata) (*unstructured.Unstructured,
	error) {
	decision.RemoveWholeObjects(found.Annotations)
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&found.ObjectMeta)
	if err != nil {
		return nil, err
	}
	data := map[string]any{}
	for _, field := range []string{"data", "stringData"} {
		values, _, _ := unstructured.NestedMap(like.Object, field)
		for key := range values {
			data[key] = hiddenData
		}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "data": data}}
	object.SetGroupVersionKind(like.GroupVersionKind())
	if of, ok := like.Object["type"]; ok {
		object.Object["type"] = of
	}
	return object, nil
}

// classes are kinds of which one object is the default. If several objects are marked as the default,
// the newest is in force. A snapshot doesn't have the objects' age.
var classes = []schema.GroupKind{
	{Group: "storage.k8s.io", Kind: "StorageClass"}, {Group: "networking.k8s.io", Kind: "IngressClass"},
}

// keepNewestDefault unmarks all default classes of a kind except for the one in force, and adds notes.
func (r *reading) keepNewestDefault() {
	for _, kind := range classes {
		var all []*unstructured.Unstructured
		for _, object := range r.found {
			if object.GroupVersionKind().GroupKind() == kind && input.IsDefaultClass(object) {
				all = append(all, object)
			}
		}
		slices.SortFunc(all, compareAge)
		for i, object := range all {
			if i > 0 {
				annotations := object.GetAnnotations()
				for _, key := range input.DefaultClass {
					delete(annotations, key)
				}
				object.SetAnnotations(annotations)
				r.addNote("%s %s: it is a default class, but %s is newer, and in force: not kept as a default", kind.Kind,
					object.GetName(), all[0].GetName())
			}
		}
	}
	for _, object := range r.found {
		unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	}
}

// Same reports whether two objects are equal, except for what clean leaves out.
func Same(a, b *unstructured.Unstructured) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	clean(a, false)
	clean(b, false)
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

// IsAPIServer reports whether an object is the Service of the API server, of which each server
// makes its own.
func IsAPIServer(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == services && object.GetNamespace() == metav1.NamespaceDefault &&
		object.GetName() == "kubernetes"
}
