// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Resource is a resource in all its versions, or one of its subresources.
type Resource struct {
	// Group is the API group, empty for the core group.
	Group string
	// Resource is the name in the plural, as in "pods".
	Resource string
	// Subresource is a name such as "status". If empty, the Resource is the object itself without
	// its subresources.
	Subresource string
}

// String returns the resource in the form "pods/resize" or "events.events.k8s.io".
func (r Resource) String() string {
	text := schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	return text
}

// On returns a resource and its subresources: On(pods, "", "resize") is pods themselves and their
// resize subresource, On(pods) is pods themselves only.
func On(resource schema.GroupResource, subresources ...string) []Resource {
	if len(subresources) == 0 {
		subresources = []string{""}
	}
	var all []Resource
	for _, subresource := range subresources {
		all = append(all, Resource{resource.Group, resource.Resource, subresource})
	}
	return all
}

// EveryOperation lists all operations.
var EveryOperation = []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}
