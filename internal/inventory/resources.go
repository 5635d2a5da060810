// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	_ "embed" // for resources.txt
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// A Resource is a resource or a subresource that API servers serve in a version.
type Resource struct {
	schema.GroupVersionResource
	// Subresource is empty for the resource itself, Singular is for subresources.
	Subresource, Singular string
	// Kind is the kind of what clients send to it.
	Kind       schema.GroupVersionKind
	Namespaced bool
	// Operations are the operations of requests that pass admission. A resource that is only read has none.
	Operations []admission.Operation
}

// recorded has the resources of Kubernetes, those that are off by default among them: the answers of a
// kube-apiserver, which Kubernetes keeps beside its source. A line is one of a version of a resource or subresource:
// group and version, name, group and version of the kind, kind, singular name, scope, operations.
//
//go:embed resources.txt
var recorded string

// BuiltIn returns the resources of Kubernetes. They must not be changed.
var BuiltIn = sync.OnceValue(func() (all []Resource) {
	for line := range strings.Lines(recorded) {
		r, err := parseResource(strings.Fields(line))
		if err != nil {
			panic(fmt.Sprintf("resources.txt: %s: %v", line, err)) // a test reads it
		}
		all = append(all, r)
	}
	return all
})

func parseResource(fields []string) (r Resource, err error) {
	if len(fields) != 7 {
		return r, fmt.Errorf("%d fields", len(fields))
	}
	version, err := schema.ParseGroupVersion(fields[0])
	if err != nil {
		return r, err
	}
	kind, err := schema.ParseGroupVersion(fields[2])
	if err != nil {
		return r, err
	}
	name, subresource, _ := strings.Cut(fields[1], "/")
	r = Resource{GroupVersionResource: version.WithResource(name), Subresource: subresource, Singular: fields[4],
		Kind: kind.WithKind(fields[3]), Namespaced: fields[5] == "Namespaced"}
	if fields[6] != "-" {
		for operation := range strings.SplitSeq(fields[6], ",") {
			r.Operations = append(r.Operations, admission.Operation(operation))
		}
	}
	return r, nil
}

// resourcesOf returns the resources and subresources of a CustomResourceDefinition.
func resourcesOf(d *Definition) (all []Resource) {
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if !v.Served {
			continue
		}
		version := schema.GroupVersion{Group: d.Spec.Group, Version: v.Name}
		r := Resource{GroupVersionResource: version.WithResource(d.Spec.Names.Plural), Singular: d.Spec.Names.Singular,
			Kind: version.WithKind(d.Spec.Names.Kind), Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
			Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete}}
		if r.Singular == "" {
			r.Singular = strings.ToLower(d.Spec.Names.Kind)
		}
		all = append(all, r)
		below := func(name string, kind schema.GroupVersionKind) {
			sub := r
			sub.Subresource, sub.Kind, sub.Operations = name, kind, []admission.Operation{admission.Update}
			all = append(all, sub)
		}
		if v.Subresources != nil && v.Subresources.Status != nil {
			below("status", r.Kind)
		}
		if v.Subresources != nil && v.Subresources.Scale != nil {
			below("scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"})
		}
	}
	return all
}

// newEquivalents returns a mapper that knows which of the resources are the same in several groups and versions. Of the
// groups that share what they store, those of events are the only ones that are both served.
//
// Source: k8s.io/kubernetes/pkg/kubeapiserver/default_storage_factory_builder.go#New 92ba2823
func newEquivalents(resources []Resource) runtime.EquivalentResourceMapper {
	registry := runtime.NewEquivalentResourceRegistryWithIdentity(func(r schema.GroupResource) string {
		if r == (schema.GroupResource{Group: "events.k8s.io", Resource: "events"}) {
			r.Group = ""
		}
		return r.String()
	})
	for _, r := range resources {
		registry.RegisterKindFor(r.GroupVersionResource, r.Subresource, r.Kind)
	}
	return registry
}

// builtInEquivalents knows the resources of Kubernetes alone.
var builtInEquivalents = sync.OnceValue(func() runtime.EquivalentResourceMapper { return newEquivalents(BuiltIn()) })

// setResources sets what is known of resources, by the CustomResourceDefinitions.
func (i *Inventory) setResources() {
	i.Resources, i.Equivalents = BuiltIn(), builtInEquivalents()
	if len(i.Definitions) == 0 {
		return
	}
	i.Resources = slices.Clip(i.Resources)
	for _, d := range i.Definitions {
		i.Resources = append(i.Resources, resourcesOf(d)...)
	}
	i.Equivalents = newEquivalents(i.Resources)
}

// KindFor returns the kind of a resource: one of Kubernetes, or of a CustomResourceDefinition among the objects.
// It is empty for others.
func (i *Inventory) KindFor(r schema.GroupVersionResource) schema.GroupVersionKind {
	return i.Equivalents.KindFor(r, "")
}
