// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podspec helps plugins that look at pods: it returns the pod of a request, and goes over all
// of its containers, whichever of the three lists they are in.
//
// The package is public: docs/compatibility.md promises its exported names and behaviour.
package podspec

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The lists of containers in a pod's spec, by the names of their fields.
const (
	InitContainers      = "initContainers"
	Containers          = "containers"
	EphemeralContainers = "ephemeralContainers"
)

// Position is the position of a container in a pod.
type Position struct {
	// List is the field of the spec: InitContainers, Containers or EphemeralContainers.
	List string
	// Index is the container's in that list.
	Index int
}

// Path returns the position in the form that messages have: spec.containers[0].
func (p Position) Path() *field.Path { return field.NewPath("spec", p.List).Index(p.Index) }

// In returns the container at the position. It panics if the spec has none there.
func (p Position) In(spec *corev1.PodSpec) *corev1.Container {
	switch p.List {
	case InitContainers:
		return &spec.InitContainers[p.Index]
	case EphemeralContainers:
		return common(&spec.EphemeralContainers[p.Index])
	}
	return &spec.Containers[p.Index]
}

func common(c *corev1.EphemeralContainer) *corev1.Container {
	return (*corev1.Container)(&c.EphemeralContainerCommon)
}

// All returns the containers of a pod in the order in which they start: init containers, containers,
// ephemeral containers. Of an ephemeral container it returns the part that all containers have. The
// containers are the pod's own: a change of one changes the pod.
func All(spec *corev1.PodSpec) iter.Seq2[Position, *corev1.Container] {
	return func(yield func(Position, *corev1.Container) bool) {
		for i := range spec.InitContainers {
			if !yield(Position{InitContainers, i}, &spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(Position{Containers, i}, &spec.Containers[i]) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield(Position{EphemeralContainers, i}, common(&spec.EphemeralContainers[i])) {
				return
			}
		}
	}
}

// Pod returns the object, or old object, of a request for pods. If the object isn't a pod, Pod returns
// a bad request that names the plugin.
func Pod(plugin string, object runtime.Object) (*corev1.Pod, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		return pod, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for pods is a %T", plugin, object))
}

// Says reports whether there is a request or limit for the resource, even of 0. It returns false for
// nil, which a pod without resources of its own has.
func Says(resources *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	if resources == nil {
		return false
	}
	_, requested := resources.Requests[name]
	_, limited := resources.Limits[name]
	return requested || limited
}
