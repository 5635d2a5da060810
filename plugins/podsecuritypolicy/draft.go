package podsecuritypolicy

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// draft is a copy of a pod in which a policy sets its defaults. Most policies have none to set, so what may be set is copied when it is: the
// copy shares everything else with the pod.
type draft struct {
	pod corev1.Pod
	// creating says that the pod is about to be created, and what it asks for in the words of former days may be put into today's.
	creating bool
	// set is the first field that was set, nil where none was.
	set *field.Path
}

func newDraft(pod *corev1.Pod, creating bool) *draft {
	d := &draft{pod: *pod, creating: creating}
	d.pod.Spec.InitContainers = slices.Clone(pod.Spec.InitContainers)
	d.pod.Spec.Containers = slices.Clone(pod.Spec.Containers)
	d.pod.Spec.EphemeralContainers = slices.Clone(pod.Spec.EphemeralContainers)
	return d
}

// noteSet notes that the field at path is set.
func (d *draft) noteSet(path *field.Path) {
	if d.set == nil {
		d.set = path
	}
}

// ofPod is the pod's security context, to set a field of it.
func (d *draft) ofPod(name string) *corev1.PodSecurityContext {
	d.noteSet(podPath.Child(name))
	var owned corev1.PodSecurityContext
	if d.pod.Spec.SecurityContext != nil {
		owned = *d.pod.Spec.SecurityContext
	}
	d.pod.Spec.SecurityContext = &owned
	return &owned
}

// ofContainer is the security context of a container of the draft, to set a field of it.
func (d *draft) ofContainer(c *corev1.Container, at place, name string) *corev1.SecurityContext {
	d.noteSet(at.path().Child(name))
	var owned corev1.SecurityContext
	if c.SecurityContext != nil {
		owned = *c.SecurityContext
	}
	c.SecurityContext = &owned
	return &owned
}

var podPath = field.NewPath("spec", "securityContext")

// effective is what holds for a container: its own security context and, for what that doesn't say, the pod's.
type effective struct {
	pod       *corev1.PodSecurityContext
	container *corev1.SecurityContext
}

var (
	noPodContext       corev1.PodSecurityContext
	noContainerContext corev1.SecurityContext
)

// podContext is the pod's security context, an empty one where it has none. It is not to be changed.
func podContext(pod *corev1.Pod) *corev1.PodSecurityContext {
	if pod.Spec.SecurityContext == nil {
		return &noPodContext
	}
	return pod.Spec.SecurityContext
}

func effectiveFor(pod *corev1.Pod, c *corev1.Container) effective {
	e := effective{podContext(pod), c.SecurityContext}
	if e.container == nil {
		e.container = &noContainerContext
	}
	return e
}

func (e effective) runAsUser() *int64   { return either(e.container.RunAsUser, e.pod.RunAsUser) }
func (e effective) runAsGroup() *int64  { return either(e.container.RunAsGroup, e.pod.RunAsGroup) }
func (e effective) runAsNonRoot() *bool { return either(e.container.RunAsNonRoot, e.pod.RunAsNonRoot) }
func (e effective) seLinux() *corev1.SELinuxOptions {
	return either(e.container.SELinuxOptions, e.pod.SELinuxOptions)
}

func either[T any](own, inherited *T) *T {
	if own != nil {
		return own
	}
	return inherited
}

// with is annotations with one more.
func with(annotations map[string]string, key, value string) map[string]string {
	more := maps.Clone(annotations)
	if more == nil {
		more = map[string]string{}
	}
	more[key] = value
	return more
}
