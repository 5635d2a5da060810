// Package podspec is what plugins that look at pods have in common: the pod of a request, and all
// of its containers, whichever of the three lists they are in.
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

// Position is where a container is in a pod.
type Position struct {
	// List is the field of the spec: InitContainers, Containers or EphemeralContainers.
	List string
	// Index is the container's in that list.
	Index int
}

// Path is the position as messages have it: spec.containers[0]. It is made when it is asked for,
// which is when something is wrong.
func (p Position) Path() *field.Path { return field.NewPath("spec", p.List).Index(p.Index) }

// In is the container at the position in a pod's spec, which has one there.
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

// All are the containers of a pod in the order in which they start: init containers, containers,
// ephemeral containers. Of an ephemeral container it is what it has in common with the others. What
// is set in a container is set in the pod.
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

// Pod is the object, or old object, of a request for pods: whatever else it may be is refused as a
// bad request, in the name of the plugin.
func Pod(plugin string, object runtime.Object) (*corev1.Pod, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		return pod, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for pods is a %T", plugin, object))
}

// Says reports whether there is a request or limit for the resource, be it 0. Nil, as a pod without
// resources of its own has, says nothing.
func Says(resources *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	if resources == nil {
		return false
	}
	_, requested := resources.Requests[name]
	_, limited := resources.Limits[name]
	return requested || limited
}
