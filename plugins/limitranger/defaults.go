package limitranger

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// annotation says on a pod which of its containers' resources are defaults.
	annotation = "kubernetes.io/limit-ranger"
	// annotationStart is what its value begins with.
	annotationStart = "LimitRanger plugin set: "
)

// setDefaults gives containers what they don't say themselves, and says in the annotation what that
// was. again tells that the plugin runs on this pod once more: the annotation then keeps what is in
// it.
func setDefaults(pod *corev1.Pod, ranges []*corev1.LimitRange, again bool) {
	defaults := containerDefaults(ranges)
	if len(defaults.Limits) == 0 && len(defaults.Requests) == 0 {
		return
	}
	var set []string
	for i := range pod.Spec.Containers {
		set = append(set, setContainerDefaults(&pod.Spec.Containers[i], "container", defaults)...)
	}
	for i := range pod.Spec.InitContainers {
		set = append(set, setContainerDefaults(&pod.Spec.InitContainers[i], "init container", defaults)...)
	}
	if len(set) == 0 {
		return
	}
	value := annotationStart + strings.Join(set, "; ")
	if before, ok := pod.Annotations[annotation]; ok && again && strings.HasPrefix(before, annotationStart) {
		value = before + "; " + strings.Join(set, "; ")
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = value
}

// containerDefaults is what containers get by default. Where LimitRanges disagree, the first has
// it.
func containerDefaults(ranges []*corev1.LimitRange) corev1.ResourceRequirements {
	var defaults corev1.ResourceRequirements
	for _, limitRange := range ranges {
		for i := range limitRange.Spec.Limits {
			if item := &limitRange.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
				fill(&defaults.Requests, item.DefaultRequest)
				fill(&defaults.Limits, item.Default)
			}
		}
	}
	return defaults
}

// setContainerDefaults is what it set, in the words of the annotation.
func setContainerDefaults(container *corev1.Container, kind string, defaults corev1.ResourceRequirements) []string {
	var set []string
	if names := fill(&container.Resources.Requests, defaults.Requests); len(names) > 0 {
		set = append(set, fmt.Sprintf("%s request for %s %s", strings.Join(names, ", "), kind, container.Name))
	}
	if names := fill(&container.Resources.Limits, defaults.Limits); len(names) > 0 {
		set = append(set, fmt.Sprintf("%s limit for %s %s", strings.Join(names, ", "), kind, container.Name))
	}
	return set
}

// fill puts into list what it lacks of defaults, and is the names of that, sorted.
func fill(list *corev1.ResourceList, defaults corev1.ResourceList) []string {
	var names []string
	for name, quantity := range defaults {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = make(corev1.ResourceList, len(defaults))
		}
		(*list)[name] = quantity.DeepCopy()
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}
