// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

// selection holds the plugins of a phase, in order, by the requests that they are called for. A
// request costs nothing for the plugins that it doesn't concern.
type selection[P any] map[admission.Operation]*byResource[P]

type byResource[P any] struct {
	// named holds all plugins for each resource that at least one plugin names.
	named map[plugin.Resource][]P
	// others holds the plugins for every other resource.
	others []P
}

// add adds a plugin after those that are there.
func (s selection[P]) add(operations []admission.Operation, resources []plugin.Resource, added P) {
	for _, operation := range operations {
		about := s[operation]
		if about == nil {
			about = &byResource[P]{named: map[plugin.Resource][]P{}}
			s[operation] = about
		}
		if len(resources) == 0 {
			about.others = append(about.others, added)
			for resource := range about.named {
				about.named[resource] = append(about.named[resource], added)
			}
			continue
		}
		for _, resource := range resources {
			list, ok := about.named[resource]
			if !ok {
				list = about.others
			}
			about.named[resource] = append(list[:len(list):len(list)], added)
		}
	}
}

// plugins returns the plugins that are called for a request.
func (s selection[P]) plugins(a admission.Attributes) []P {
	about := s[a.GetOperation()]
	if about == nil {
		return nil
	}
	resource := a.GetResource()
	asked := plugin.Resource{Group: resource.Group, Resource: resource.Resource, Subresource: a.GetSubresource()}
	if list, ok := about.named[asked]; ok {
		return list
	}
	return about.others
}
