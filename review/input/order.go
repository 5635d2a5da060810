package input

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A reference is an object that another one needs to be there before it.
type reference struct {
	kind            schema.GroupKind
	namespace, name string
}

var (
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	accountKind    = schema.GroupKind{Kind: "ServiceAccount"}
	crdKind        = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	priorityKind   = schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"}
	runtimeKind    = schema.GroupKind{Group: "node.k8s.io", Kind: "RuntimeClass"}
	storageKind    = schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}
	claimGroupKind = schema.GroupKind{Kind: "PersistentVolumeClaim"}
)

// Ordered takes objects first that others need which stand before them, as people expect who apply
// a folder: a namespace before what is in it, a CustomResourceDefinition before its resources, a
// service account or a class before its pods. All else keeps its place. The notes say what was
// taken first.
func Ordered(documents []Document) (_ []Document, notes []string) {
	// by has where each object that others may need stands.
	by := map[reference]int{}
	for i, d := range documents {
		for _, provided := range provides(d.Object) {
			if _, ok := by[provided]; !ok {
				by[provided] = i
			}
		}
	}
	var out []Document
	taken := make([]bool, len(documents))
	var take func(i, before int)
	take = func(i, before int) {
		if taken[i] {
			return
		}
		taken[i] = true
		for _, needed := range needs(documents[i].Object) {
			if at, ok := by[needed]; ok && at != i {
				take(at, i)
			}
		}
		if before >= 0 && i > before {
			notes = append(notes, fmt.Sprintf("%s: %s is taken before %s, which needs it", documents[i].Source,
				Named(documents[i].Object), documents[before].Source))
		}
		out = append(out, documents[i])
	}
	for i := range documents {
		take(i, -1)
	}
	return out, notes
}

// provides is what others may need an object as.
func provides(o *unstructured.Unstructured) []reference {
	kind := o.GroupVersionKind().GroupKind()
	switch kind {
	case namespaceKind, priorityKind, runtimeKind, storageKind:
		return []reference{{kind: kind, name: o.GetName()}}
	case accountKind:
		return []reference{{kind: kind, namespace: NamespaceOf(o), name: o.GetName()}}
	case crdKind:
		of, _ := Defines(o)
		return []reference{{kind: crdKind, name: of.Kind + "." + of.Group}}
	}
	return nil
}

// Defines is the kind that a CustomResourceDefinition defines; of other objects there is none.
func Defines(o *unstructured.Unstructured) (schema.GroupKind, bool) {
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}, o.GroupVersionKind().GroupKind() == crdKind
}

// needs is what an object needs to be there.
func needs(o *unstructured.Unstructured) []reference {
	kind := o.GroupVersionKind().GroupKind()
	all := []reference{{kind: crdKind, name: kind.Kind + "." + kind.Group}}
	if o.GetNamespace() != "" {
		all = append(all, reference{kind: namespaceKind, name: o.GetNamespace()})
	}
	add := func(kind schema.GroupKind, namespace, name string) {
		if name != "" {
			all = append(all, reference{kind, namespace, name})
		}
	}
	if spec := podSpec(o); spec != nil {
		text := func(field string) string { s, _, _ := unstructured.NestedString(spec, field); return s }
		add(accountKind, NamespaceOf(o), text("serviceAccountName"))
		add(priorityKind, "", text("priorityClassName"))
		add(runtimeKind, "", text("runtimeClassName"))
	}
	if of, ok, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "kind"); ok {
		version, _, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "apiVersion")
		group, _ := schema.ParseGroupVersion(version)
		add(crdKind, "", of+"."+group.Group)
	}
	if kind == claimGroupKind {
		class, _, _ := unstructured.NestedString(o.Object, "spec", "storageClassName")
		add(storageKind, "", class)
	}
	return all
}

// NamespaceOf is the namespace that a namespaced object is in.
func NamespaceOf(o *unstructured.Unstructured) string {
	if namespace := o.GetNamespace(); namespace != "" {
		return namespace
	}
	return "default"
}

// Named is the object as people name it.
func Named(o *unstructured.Unstructured) string {
	name := o.GetName()
	if name == "" && o.GetGenerateName() != "" {
		name = o.GetGenerateName() + "…"
	}
	return o.GetKind() + " " + name
}

// Distinct are documents without those of an object that an earlier one is of already, each of
// which is an Error.
func Distinct(documents []Document) (distinct []Document, errs []error) {
	type key struct {
		kind            schema.GroupKind
		namespace, name string
	}
	first := map[key]Source{}
	for _, d := range documents {
		if d.Object.GetName() == "" || IsRequest(d.Object) {
			distinct = append(distinct, d)
			continue
		}
		k := key{d.Object.GroupVersionKind().GroupKind(), NamespaceOf(d.Object), d.Object.GetName()}
		if at, ok := first[k]; ok {
			errs = append(errs, &Error{Source: d.Source, Object: d.Object,
				Err: fmt.Errorf("%s is in the input twice: first at %s", Named(d.Object), at)})
			continue
		}
		first[k] = d.Source
		distinct = append(distinct, d)
	}
	return distinct, errs
}

// IsRequest tells whether an object is none, but the request of an AdmissionReview.
func IsRequest(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "admission.k8s.io", Kind: "AdmissionReview"}
}

// templates are where workloads have what their pods are made from.
var templates = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                             nil,
	{Kind: "PodTemplate"}:                     {"template"},
	{Kind: "ReplicationController"}:           {"spec", "template"},
	{Group: "apps", Kind: "Deployment"}:       {"spec", "template"},
	{Group: "apps", Kind: "ReplicaSet"}:       {"spec", "template"},
	{Group: "apps", Kind: "StatefulSet"}:      {"spec", "template"},
	{Group: "apps", Kind: "DaemonSet"}:        {"spec", "template"},
	{Group: "batch", Kind: "Job"}:             {"spec", "template"},
	{Group: "batch", Kind: "CronJob"}:         {"spec", "jobTemplate", "spec", "template"},
	{Group: "extensions", Kind: "Deployment"}: {"spec", "template"},
	{Group: "extensions", Kind: "ReplicaSet"}: {"spec", "template"},
	{Group: "extensions", Kind: "DaemonSet"}:  {"spec", "template"},
}

// podSpec is the spec of a pod, or of those that a workload makes; nil for other objects.
func podSpec(o *unstructured.Unstructured) map[string]any {
	path, ok := templates[o.GroupVersionKind().GroupKind()]
	if !ok {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(o.Object, append(slices.Clone(path), "spec")...)
	return spec
}
