// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// omission lists the requests and limits that a container lacks.
type omission struct {
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

// demands holds the names for which a quota requires a request or limit of every container, sorted.
// For historical reasons these names do, and no others.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#validationSet 79049563
var demands = [...]struct {
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

// findOmissions returns the omissions of a pod's containers. There are none if the pod has
// resources for the pod as a whole.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#Constraints c8b3fa6d
func (m Meter) findOmissions(pod *corev1.Pod) []omission {
	if !m.Off.has(PodLevelResources) && resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	var all []omission
	for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if what := omittedStatements(&containers[i].Resources); what != 0 {
				if all == nil {
					all = make([]omission, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
				}
				all = append(all, omission{containers[i].Name, what})
			}
		}
	}
	return all
}

func omittedStatements(r *corev1.ResourceRequirements) statements {
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

// omissionMessage returns which requirements of a quota the object doesn't meet: "must specify cpu
// for: c1; memory for: c1,c2". It returns "" if it meets all.
func (c *Cost) omissionMessage(hard corev1.ResourceList) string {
	if len(c.omissions) == 0 {
		return ""
	}
	var text strings.Builder
	for _, demand := range demands {
		if _, limited := hard[demand.name]; !limited {
			continue
		}
		var names []string
		for _, u := range c.omissions {
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
