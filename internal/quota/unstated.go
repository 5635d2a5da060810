package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// unstated is what a container doesn't say about its resources.
type unstated struct {
	container string
	what      statements
}

// statements is a set of requests and limits.
type statements uint8

const (
	requestsCPU statements = 1 << iota
	requestsMemory
	limitsCPU
	limitsMemory
)

// demanded are the names by which a quota demands a statement of every container, sorted. That it
// does so for these is history, and it is for no other.
//
// Source: validationSet in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
var demanded = [...]struct {
	name corev1.ResourceName
	what statements
}{
	{corev1.ResourceCPU, requestsCPU},
	{corev1.ResourceLimitsCPU, limitsCPU},
	{corev1.ResourceLimitsMemory, limitsMemory},
	{corev1.ResourceMemory, requestsMemory},
	{corev1.ResourceRequestsCPU, requestsCPU},
	{corev1.ResourceRequestsMemory, requestsMemory},
}

// unstatedBy lists the containers that leave something out. A pod that states its resources as a
// whole has none.
//
// Source: Constraints in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
func (m Meter) unstatedBy(pod *corev1.Pod) []unstated {
	if !m.Off.has(PodLevelResources) && resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	var all []unstated
	for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if what := leftOut(&containers[i].Resources); what != 0 {
				if all == nil {
					all = make([]unstated, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
				}
				all = append(all, unstated{containers[i].Name, what})
			}
		}
	}
	return all
}

func leftOut(r *corev1.ResourceRequirements) statements {
	var out statements
	if _, ok := r.Requests[corev1.ResourceCPU]; !ok {
		out |= requestsCPU
	}
	if _, ok := r.Requests[corev1.ResourceMemory]; !ok {
		out |= requestsMemory
	}
	if _, ok := r.Limits[corev1.ResourceCPU]; !ok {
		out |= limitsCPU
	}
	if _, ok := r.Limits[corev1.ResourceMemory]; !ok {
		out |= limitsMemory
	}
	return out
}

// missing says which of a quota's demands the object doesn't meet: "must specify cpu for: c1;
// memory for: c1,c2". It is "" if it meets all.
func (c *Cost) missing(hard corev1.ResourceList) string {
	if len(c.unstated) == 0 {
		return ""
	}
	var text strings.Builder
	for _, demand := range demanded {
		if _, limited := hard[demand.name]; !limited {
			continue
		}
		var names []string
		for _, u := range c.unstated {
			if u.what&demand.what != 0 {
				names = append(names, u.container)
			}
		}
		if names == nil {
			continue
		}
		if text.Len() == 0 {
			text.WriteString("must specify ")
		} else {
			text.WriteString("; ")
		}
		slices.Sort(names)
		text.WriteString(string(demand.name))
		text.WriteString(" for: ")
		text.WriteString(strings.Join(slices.Compact(names), ","))
	}
	return text.String()
}
