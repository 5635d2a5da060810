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

// written are fields of metadata that say when and how an object was written.
var written = []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink"}

// statuses are the fields of statuses that admission looks at. Others change all the time.
var statuses = map[schema.GroupKind][]string{
	namespaces:                      {"phase"},
	{Kind: "ResourceQuota"}:         {"hard", "used"},
	{Kind: "PersistentVolumeClaim"}: {"phase", "capacity", "accessModes"},
	{Kind: "PersistentVolume"}:      {"phase"},
	{Kind: "Node"}:                  {"capacity", "allocatable", "declaredFeatures"},
	serviceRanges.GroupKind():       {"conditions"}, // of one that isn't ready services get no IPs
}

// clean leaves out what only says when and how an object was written; unless it is to be whole,
// what kubectl notes of that, too, and of its status what admission doesn't look at.
func clean(object *unstructured.Unstructured, whole bool) {
	fields, _, _ := unstructured.NestedMap(object.Object, "metadata")
	for _, field := range written {
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
	for _, field := range statuses[object.GroupVersionKind().GroupKind()] {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	if object.Object["status"] = kept; len(kept) == 0 {
		delete(object.Object, "status")
	}
}

// noData is a value in place of a Secret's. It is one that every type of Secret may have.
var noData = base64.StdEncoding.EncodeToString([]byte("{}"))

// withoutData is a Secret of which nothing is known but its metadata and how somebody means it to
// be: of its type, with its keys, and no value of anybody's.
func withoutData(like *unstructured.Unstructured, found *metav1.PartialObjectMetadata) (*unstructured.Unstructured,
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
			data[key] = noData
		}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "data": data}}
	object.SetGroupVersionKind(like.GroupVersionKind())
	if of, ok := like.Object["type"]; ok {
		object.Object["type"] = of
	}
	return object, nil
}

// classes are kinds of which one object is the default. Where several say so it is the newest, and
// how old they are is lost.
var classes = []schema.GroupKind{
	{Group: "storage.k8s.io", Kind: "StorageClass"}, {Group: "networking.k8s.io", Kind: "IngressClass"},
}

// oneDefault leaves of several default classes only the one that is in force, and says so.
func (r *reading) oneDefault() {
	for _, kind := range classes {
		var all []*unstructured.Unstructured
		for _, object := range r.found {
			if object.GroupVersionKind().GroupKind() == kind && input.IsDefaultClass(object) {
				all = append(all, object)
			}
		}
		slices.SortFunc(all, newest)
		for i, object := range all {
			if i > 0 {
				annotations := object.GetAnnotations()
				for _, key := range input.DefaultClass {
					delete(annotations, key)
				}
				object.SetAnnotations(annotations)
				r.note("%s %s: it is a default class, but %s is newer, and in force: not kept as a default", kind.Kind,
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
