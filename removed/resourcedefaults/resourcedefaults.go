// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcedefaults implements the admission plugin ResourceDefaults, which gives containers
// without a request and limit for cpu or memory a default, the same in every namespace. It was
// Kubernetes' first way to do so and is for clusters or namespaces without LimitRanges.
//
// The default is a request and a limit of 512Mi of memory and of 1 cpu; the configuration can say
// other quantities. A container that says anything of a resource, even 0, keeps it. Init containers
// get the default, too. Ephemeral containers can't have resources. If the pod itself has a request
// or limit in spec.resources, its containers get no default for that resource.
//
// An update of a pod can't change its containers' resources, so a container gets the default on an
// update only if the stored container of that name has exactly that. A client may thus send its
// manifest again without the defaults, and pods from before the plugin was enabled can be updated.
package resourcedefaults

import (
	"context"
	_ "embed"
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

//go:embed README.md
var manual string

// Descriptor describes ResourceDefaults. It needs nothing; its configuration is of kind
// ResourceDefaultsConfiguration.
//
//schema:configuration configuration ResourceDefaultsConfiguration gatehouse.dev/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives containers that say nothing of memory or cpu a default",
	Manual:     manual,
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

// Admit gives the containers of a pod the resources that they lack.
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
			if !missing.hasDefault(stored) {
				continue
			}
		}
		missing.set()
	}
	return nil
}

// missing names a resource that a container doesn't state.
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

// hasDefault reports whether the container of the stored pod has the default.
func (m missing) hasDefault(stored *corev1.Pod) bool {
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
