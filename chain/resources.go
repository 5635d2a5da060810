package chain

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// A Resource is what requests are about: a resource in all its versions, or one of its
// subresources.
type Resource struct {
	// Group is the API group, empty for the core group.
	Group string
	// Resource is the name in the plural, as in "pods".
	Resource string
	// Subresource is as in "status". Empty is the object itself, without its subresources.
	Subresource string
}

// String is the resource as in "pods/resize" or "events.events.k8s.io".
func (r Resource) String() string {
	text := schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	return text
}

// On are a resource and, where there are any, subresources: On(pods, "", "resize") are pods
// themselves and their resize, On(pods) pods themselves only.
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

// resourceOf is what a request is about.
func resourceOf(a admission.Attributes) Resource {
	resource := a.GetResource()
	return Resource{resource.Group, resource.Resource, a.GetSubresource()}
}

// asked are the plugins of a phase, in order, by what they are asked about. Those that a request
// doesn't concern cost it nothing.
type asked[P any] map[admission.Operation]*askedAbout[P]

type askedAbout[P any] struct {
	// named are all that are asked about a resource that at least one of them names.
	named map[Resource][]P
	// others are those that are asked about every other resource.
	others []P
}

// EveryOperation are all operations that there are.
var EveryOperation = []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}

// add adds a plugin after those that are there. It is asked here, once, which operations it
// handles: that doesn't change.
func (l asked[P]) add(plugin admission.Interface, resources []Resource, entry P) {
	for _, operation := range EveryOperation {
		if !plugin.Handles(operation) {
			continue
		}
		about := l[operation]
		if about == nil {
			about = &askedAbout[P]{named: map[Resource][]P{}}
			l[operation] = about
		}
		if len(resources) == 0 {
			about.others = append(about.others, entry)
			for resource := range about.named {
				about.named[resource] = append(about.named[resource], entry)
			}
			continue
		}
		for _, resource := range resources {
			list, ok := about.named[resource]
			if !ok {
				list = about.others
			}
			about.named[resource] = append(list[:len(list):len(list)], entry)
		}
	}
}

// of are the plugins that are asked about a request.
func (l asked[P]) of(a admission.Attributes) []P {
	about := l[a.GetOperation()]
	if about == nil {
		return nil
	}
	if list, ok := about.named[resourceOf(a)]; ok {
		return list
	}
	return about.others
}
