// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A reference names an object that must exist before another one.
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
	ingressKind    = schema.GroupKind{Group: "networking.k8s.io", Kind: "IngressClass"}
	claimGroupKind = schema.GroupKind{Kind: "PersistentVolumeClaim"}

	claimTemplateKind = schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}
)

// Ordered moves objects before those that need them: a namespace before the objects in it, a
// CustomResourceDefinition before its resources, a service account or a class before its pods,
// whether they name it or it is the default. Users who apply a folder expect that. It also moves objects
// of a lower rank before those of a higher one, unless these are needed. All other objects keep their
// place. in returns the namespace of an object, or "" if it has none. The notes name the objects that
// were moved.
func Ordered(documents []Document, in func(*unstructured.Unstructured) string,
	rank func(*unstructured.Unstructured) int) (_ []Document, notes []string) {
	// by has the index of each object that others may need.
	by := map[reference]int{}
	ranks, order := make([]int, len(documents)), make([]int, len(documents))
	for i, d := range documents {
		ranks[i], order[i] = rank(d.Object), i
		for _, provided := range provides(d.Object, in(d.Object)) {
			if _, ok := by[provided]; !ok {
				by[provided] = i
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
	var taken []int
	seen := make([]bool, len(documents))
	needed := map[int]int{} // the first object that needs another
	var take func(i int)
	take = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, of := range needs(documents[i].Object, in(documents[i].Object)) {
			at, ok := by[of]
			if !ok || at == i {
				continue
			}
			if before, ok := needed[at]; !ok || i < before {
				needed[at] = i
			}
			take(at)
		}
		taken = append(taken, i)
	}
	for _, i := range order {
		take(i)
	}
	var out []Document
	var first []string
	place := make([]int, len(documents))
	for n, i := range taken {
		place[i] = n
	}
	for n, i := range taken {
		out = append(out, documents[i])
		before, ok := needed[i]
		switch {
		case ok && before < i && place[before] > n:
			notes = append(notes, fmt.Sprintf("%s: %s is taken before %s, which needs it", documents[i].Source,
				Named(documents[i].Object), documents[before].Source))
		case slices.ContainsFunc(taken[n+1:], func(later int) bool {
			namespace := in(documents[i].Object)
			return later < i && ranks[later] > ranks[i] && (namespace == "" || namespace == in(documents[later].Object))
		}):
			first = append(first, fmt.Sprintf("%s (%s)", Named(documents[i].Object), documents[i].Source))
		}
	}
	if len(first) > 0 {
		notes = append(notes, takenFirst(first))
	}
	return out, notes
}

// takenFirst returns the note on objects that were moved because of their rank.
func takenFirst(objects []string) string {
	const shown = 5
	more := ""
	if n := len(objects) - shown; n > 0 {
		objects, more = objects[:shown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("taken first, because they decide about others: %s%s. A cluster that gets the objects in the order of "+
		"the files decides about the earlier ones without them", strings.Join(objects, ", "), more)
}

// provides returns the references by which others may need an object. A default class has one
// without a name too, because objects ask for it that way.
func provides(o *unstructured.Unstructured, namespace string) []reference {
	kind := o.GroupVersionKind().GroupKind()
	all := []reference{{kind: kind, name: o.GetName()}}
	switch kind {
	case namespaceKind, runtimeKind:
	case priorityKind:
		if is, _, _ := unstructured.NestedBool(o.Object, "globalDefault"); is {
			all = append(all, reference{kind: kind})
		}
	case storageKind, ingressKind:
		if IsDefaultClass(o) {
			all = append(all, reference{kind: kind})
		}
	case accountKind, claimTemplateKind:
		return []reference{{kind: kind, namespace: namespace, name: o.GetName()}}
	case crdKind:
		of, _ := Defines(o)
		return []reference{{kind: crdKind, name: of.Kind + "." + of.Group}}
	default:
		return nil
	}
	return all
}

// DefaultClass are the annotations that make a class the default one.
var DefaultClass = []string{"storageclass.kubernetes.io/is-default-class",
	"storageclass.beta.kubernetes.io/is-default-class", networkingv1.AnnotationIsDefaultIngressClass}

// IsDefaultClass reports whether a StorageClass or an IngressClass has an annotation of DefaultClass.
func IsDefaultClass(o *unstructured.Unstructured) bool {
	annotations := o.GetAnnotations()
	return slices.ContainsFunc(DefaultClass, func(key string) bool { return annotations[key] == "true" })
}

// Defines returns the kind that a CustomResourceDefinition defines. It returns false for other
// objects.
func Defines(o *unstructured.Unstructured) (schema.GroupKind, bool) {
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}, o.GroupVersionKind().GroupKind() == crdKind
}

// needs returns references to the objects that an object needs.
func needs(o *unstructured.Unstructured, namespace string) []reference {
	kind := o.GroupVersionKind().GroupKind()
	all := []reference{{kind: crdKind, name: kind.Kind + "." + kind.Group}, {kind: namespaceKind, name: namespace}}
	if spec := podSpec(o); spec != nil {
		text := func(field string) string { s, _, _ := unstructured.NestedString(spec, field); return s }
		account := cmp.Or(text("serviceAccountName"), text("serviceAccount"), "default")
		all = append(all, reference{accountKind, namespace, account},
			reference{kind: priorityKind, name: text("priorityClassName")},
			reference{kind: runtimeKind, name: text("runtimeClassName")})
		asked, _, _ := unstructured.NestedSlice(spec, "resourceClaims")
		for _, ask := range asked {
			fields, _ := ask.(map[string]any)
			template, _, _ := unstructured.NestedString(fields, "resourceClaimTemplateName")
			all = append(all, reference{claimTemplateKind, namespace, template})
		}
	}
	if of, ok, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "kind"); ok {
		version, _, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "apiVersion")
		group, _ := schema.ParseGroupVersion(version)
		all = append(all, reference{kind: crdKind, name: of + "." + group.Group})
	}
	for _, claim := range claims(o) {
		if class, asks := storageClass(claim); asks {
			all = append(all, reference{kind: storageKind, name: class})
		}
	}
	if kind.Kind == "Ingress" && (kind.Group == ingressKind.Group || kind.Group == "extensions") {
		_, named, _ := unstructured.NestedString(o.Object, "spec", "ingressClassName")
		if _, old := o.GetAnnotations()["kubernetes.io/ingress.class"]; !named && !old {
			all = append(all, reference{kind: ingressKind})
		}
	}
	return all
}

// claims returns the PersistentVolumeClaims in an object: itself, a StatefulSet's templates, and
// the ephemeral volumes of pods.
func claims(o *unstructured.Unstructured) []map[string]any {
	if o.GroupVersionKind().GroupKind() == claimGroupKind {
		return []map[string]any{o.Object}
	}
	spec := podSpec(o)
	if spec == nil {
		return nil
	}
	var all []map[string]any
	templates, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
	for _, template := range templates {
		if fields, ok := template.(map[string]any); ok {
			all = append(all, fields)
		}
	}
	volumes, _, _ := unstructured.NestedSlice(spec, "volumes")
	for _, volume := range volumes {
		fields, _ := volume.(map[string]any)
		if claim, ok, _ := unstructured.NestedMap(fields, "ephemeral", "volumeClaimTemplate"); ok {
			all = append(all, claim)
		}
	}
	return all
}

// storageClass returns the class that a claim asks for, or "" for the default one. asks reports
// whether it asks for one.
func storageClass(claim map[string]any) (class string, asks bool) {
	annotations, _, _ := unstructured.NestedStringMap(claim, "metadata", "annotations")
	class, named, _ := unstructured.NestedString(claim, "spec", "storageClassName")
	if old, ok := annotations[corev1.BetaStorageClassAnnotation]; ok { // it takes precedence
		class, named = old, true
	}
	return class, !named || class != ""
}

// NamespaceOf returns the namespace of a namespaced object.
func NamespaceOf(o *unstructured.Unstructured) string {
	if namespace := o.GetNamespace(); namespace != "" {
		return namespace
	}
	return "default"
}

// Named returns the kind and the name of an object, for messages.
func Named(o *unstructured.Unstructured) string {
	name := o.GetName()
	if name == "" && o.GetGenerateName() != "" {
		name = o.GetGenerateName() + "…"
	}
	return o.GetKind() + " " + name
}

// Distinct returns the first document of each object, and an Error for each later one. Objects that
// name no namespace are in the given one.
func Distinct(documents []Document, namespace string) (distinct []Document, errs []error) {
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
		k := key{d.Object.GroupVersionKind().GroupKind(), cmp.Or(d.Object.GetNamespace(), namespace),
			d.Object.GetName()}
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

// IsRequest reports whether an object is the request of an AdmissionReview.
func IsRequest(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "admission.k8s.io", Kind: "AdmissionReview"}
}

// templates are the paths of the pod templates of workloads, by kind.
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

// podSpec returns the spec of a pod, or of a workload's pods, or nil for other objects.
func podSpec(o *unstructured.Unstructured) map[string]any {
	path, ok := templates[o.GroupVersionKind().GroupKind()]
	if !ok {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(o.Object, append(slices.Clone(path), "spec")...)
	return spec
}
