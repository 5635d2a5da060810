// Package resourcedefaults is the plugin ResourceDefaults: containers that say nothing of their
// memory or CPU get a default, the same in every namespace. It was Kubernetes' first way of doing
// so, gone since LimitRanges can carry defaults, and is for clusters or namespaces without those.
//
// A container that has neither a request nor a limit for memory gets 512Mi as both, one that has
// neither for cpu gets 1 as both; the configuration can say other quantities. Whatever a container
// does say is kept, 0 too. One with only a limit has a request already, the same, by Kubernetes'
// own defaults; one with only a request was meant to have no limit.
//
// Init containers are containers here. That they are given the same leaves the pod as large as its
// containers make it, as they run before those; and a quota wants every one of them to say what it
// needs. Ephemeral containers can't have resources.
//
// Where the pod itself says what it needs of a resource (spec.resources), its containers share
// that, and get no default for it.
//
// # Updates
//
// An update of a pod can't change its containers' resources, so a default must not either.
// Otherwise a pod that was stored without resources, for example before the plugin was enabled,
// could never be updated again. On an update a container gets the default only if the stored
// container of its name has exactly that, as request and limit. So a client may send its manifest
// again without the plugin's values, and the update is not refused for having removed resources.
package resourcedefaults

import (
	"context"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/podspec"
)

const name = "ResourceDefaults"

var pods = corev1.Resource("pods")

// Descriptor is ResourceDefaults, not yet built. It needs nothing; its configuration is of kind
// ResourceDefaultsConfiguration.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives containers that say nothing of memory or cpu a default",
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods),
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		defaults, err := load(config)
		if err != nil {
			return nil, err
		}
		return &resourceDefaults{defaults}, nil
	},
}

// A resourceDefault is the default for containers that don't state the resource.
type resourceDefault struct {
	name     corev1.ResourceName
	quantity resource.Quantity
}

type resourceDefaults struct {
	defaults []resourceDefault
}

var _ plugin.Mutator = &resourceDefaults{}

// Admit gives the containers of a pod what they lack.
func (p *resourceDefaults) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	for _, missing := range p.missing(pod) {
		if a.GetOperation() == admission.Update {
			stored, err := podspec.Pod(name, a.GetOldObject())
			if err != nil {
				return err
			}
			if !missing.from(stored) {
				continue
			}
		}
		missing.set()
	}
	return nil
}

// missing is a resource of which a container says nothing.
type missing struct {
	resourceDefault
	container *corev1.Container
	init      bool
}

func (p *resourceDefaults) missing(pod *corev1.Pod) []missing {
	var all []missing
	for _, d := range p.defaults {
		if podspec.Says(pod.Spec.Resources, d.name) {
			continue
		}
		for i := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[i]; !podspec.Says(&c.Resources, d.name) {
				all = append(all, missing{d, c, false})
			}
		}
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; !podspec.Says(&c.Resources, d.name) {
				all = append(all, missing{d, c, true})
			}
		}
	}
	return all
}

// from reports whether the container of the stored pod has the default.
func (m missing) from(stored *corev1.Pod) bool {
	containers := stored.Spec.Containers
	if m.init {
		containers = stored.Spec.InitContainers
	}
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == m.container.Name })
	if i < 0 {
		return false
	}
	request, requested := containers[i].Resources.Requests[m.name]
	limit, limited := containers[i].Resources.Limits[m.name]
	return requested && limited && request.Equal(m.quantity) && limit.Equal(m.quantity)
}

func (m missing) set() {
	resources := &m.container.Resources
	if resources.Requests == nil {
		resources.Requests = corev1.ResourceList{}
	}
	if resources.Limits == nil {
		resources.Limits = corev1.ResourceList{}
	}
	resources.Requests[m.name] = m.quantity.DeepCopy()
	resources.Limits[m.name] = m.quantity.DeepCopy()
}
