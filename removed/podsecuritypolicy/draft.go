// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/podspec"
)

// draft holds a pod in which a policy sets its defaults. Most policies have none to set, so the
// draft is the pod itself until something is set. From then on it is a copy that shares with the
// pod whatever isn't set.
type draft struct {
	pod *corev1.Pod
	// creating is true if the pod is about to be created. Only then may seccomp annotations be
	// turned into today's fields.
	creating bool
	// set is the first field that was set, nil if none was.
	set *field.Path
}

// spec returns the draft's own spec, before the field at path is set. Containers that were looked
// at before are the pod's.
func (d *draft) spec(path *field.Path) *corev1.PodSpec {
	if d.set == nil {
		d.set = path
		own := *d.pod
		own.Spec.InitContainers = slices.Clone(own.Spec.InitContainers)
		own.Spec.Containers = slices.Clone(own.Spec.Containers)
		own.Spec.EphemeralContainers = slices.Clone(own.Spec.EphemeralContainers)
		d.pod = &own
	}
	return &d.pod.Spec
}

// container returns the container at a place, as the draft has it by now. Callers must not change
// it.
func (d *draft) container(at place) *corev1.Container {
	return podspec.Position(at).In(&d.pod.Spec)
}

// ofPod returns the pod's security context, a copy in which the caller may set the field of this
// name.
func (d *draft) ofPod(name string) *corev1.PodSecurityContext {
	spec := d.spec(podPath.Child(name))
	var owned corev1.PodSecurityContext
	if spec.SecurityContext != nil {
		owned = *spec.SecurityContext
	}
	spec.SecurityContext = &owned
	return &owned
}

// ofContainer returns the security context of a container, a copy in which the caller may set the
// field of this name.
func (d *draft) ofContainer(at place, name string) *corev1.SecurityContext {
	c := podspec.Position(at).In(d.spec(at.path().Child(name)))
	var owned corev1.SecurityContext
	if c.SecurityContext != nil {
		owned = *c.SecurityContext
	}
	c.SecurityContext = &owned
	return &owned
}

var podPath = field.NewPath("spec", "securityContext")

// effectiveContext holds a container's security context, completed by the pod's.
type effectiveContext struct {
	pod       *corev1.PodSecurityContext
	container *corev1.SecurityContext
}

var (
	noPodContext       corev1.PodSecurityContext
	noContainerContext corev1.SecurityContext
)

// podContext returns the pod's security context, an empty one if it has none. Callers must not
// change it.
func podContext(pod *corev1.Pod) *corev1.PodSecurityContext {
	if pod.Spec.SecurityContext == nil {
		return &noPodContext
	}
	return pod.Spec.SecurityContext
}

func effectiveFor(pod *corev1.Pod, c *corev1.Container) effectiveContext {
	e := effectiveContext{podContext(pod), c.SecurityContext}
	if e.container == nil {
		e.container = &noContainerContext
	}
	return e
}

func (e effectiveContext) runAsUser() *int64 { return either(e.container.RunAsUser, e.pod.RunAsUser) }
func (e effectiveContext) runAsGroup() *int64 {
	return either(e.container.RunAsGroup, e.pod.RunAsGroup)
}
func (e effectiveContext) runAsNonRoot() *bool {
	return either(e.container.RunAsNonRoot, e.pod.RunAsNonRoot)
}
func (e effectiveContext) seLinux() *corev1.SELinuxOptions {
	return either(e.container.SELinuxOptions, e.pod.SELinuxOptions)
}

func either[T any](own, inherited *T) *T {
	if own != nil {
		return own
	}
	return inherited
}

// withAnnotation returns the annotations with one more.
func withAnnotation(annotations map[string]string, key, value string) map[string]string {
	more := maps.Clone(annotations)
	if more == nil {
		more = map[string]string{}
	}
	more[key] = value
	return more
}
