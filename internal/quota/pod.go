// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"gatehouse.dev/internal/seconds"
)

// podCost returns the cost of a pod.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#PodUsageFunc 752f9e79
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#podMatchesScopeFunc c466762b
func (m Meter) podCost(pod *corev1.Pod) *Cost {
	c := &Cost{
		kind:           podKind,
		terminating:    pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0,
		bestEffort:     m.isBestEffort(pod),
		crossNamespace: usesOtherNamespaces(pod.Spec.Affinity),
		priorityClass:  pod.Spec.PriorityClassName,
		omissions:      m.findOmissions(pod),
	}
	if requestsExtended(pod) {
		c.kin = pod.UID
		if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
			c.claim = status.ResourceClaimName
		}
	}
	ended, end := m.hasEnded(pod)
	if ended {
		c.expired = !end.IsZero()
		// A pod that has ended is still stored, so it counts as an object.
		c.uses = make([]use, 0, 1)
		c.addCount(countPods, 1)
		return c
	}
	c.expires = end
	s := sumsPool.Get().(*sums)
	defer sumsPool.Put(s)
	s.compute(pod, m.Off)
	c.uses = make([]use, 0, 2+2*len(s.requests)+len(s.limits))
	c.addCount(countPods, 1)
	c.addCount(corev1.ResourcePods, 1)
	c.addPod(s.requests, s.limits)
	return c
}

// sums holds the requests and limits of a pod. It is reused for later pods, because its maps are
// the most expensive part of measuring one.
type sums struct{ requests, limits corev1.ResourceList }

var sumsPool = sync.Pool{New: func() any {
	return &sums{requests: corev1.ResourceList{},
		limits: corev1.ResourceList{}}
}}

// compute sets s to the resources of a pod: the total of its containers, sidecars, init containers
// and overhead, or what the pod requests as a whole. It includes resources that a resize is about
// to free or has not received yet.
func (s *sums) compute(pod *corev1.Pod, off Gates) {
	options := resourcehelper.PodResourcesOptions{
		// Without resources in the status there is nothing to read, and reading it isn't free.
		UseStatusResources: !off.has(InPlacePodVerticalScaling) && (anyResources(pod.Status.ContainerStatuses) ||
			anyResources(pod.Status.InitContainerStatuses)),
		SkipPodLevelResources: off.has(PodLevelResources),
	}
	options.Reuse = s.requests
	s.requests = resourcehelper.PodRequests(pod, options)
	options.Reuse = s.limits
	s.limits = resourcehelper.PodLimits(pod, options)
}

func anyResources(statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		if statuses[i].Resources != nil {
			return true
		}
	}
	return false
}

// podNames holds the names under which quotas count the common resources of pods.
var podNames = [...]struct{ resource, plain, requests, limits corev1.ResourceName }{
	{corev1.ResourceCPU, corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU},
	{corev1.ResourceMemory, corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory},
	{corev1.ResourceEphemeralStorage, corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsEphemeralStorage},
}

// requestsExtended reports whether a container of a pod requests an extended resource.
func requestsExtended(pod *corev1.Pod) bool {
	for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if isExtendedResource(string(name)) {
					return true
				}
			}
		}
	}
	return false
}

// addPod adds a pod's requests and limits under the names that quotas have for them.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#podComputeUsageHelper 7445ffdf
func (c *Cost) addPod(requests, limits corev1.ResourceList) {
	common := 0
	for i := range podNames {
		names := &podNames[i]
		if amount, ok := requests[names.resource]; ok {
			common++
			c.addUse(names.plain, amount)
			c.addUse(names.requests, amount)
		}
		if amount, ok := limits[names.resource]; ok {
			c.addUse(names.limits, amount)
		}
	}
	if len(requests) == common {
		return
	}
	fixed := len(c.uses)
	for name, amount := range requests {
		switch n := string(name); {
		case strings.HasPrefix(n, corev1.ResourceHugePagesPrefix):
			c.addUse(name, amount)
			c.addUse(requestsPrefix+name, amount)
		case isExtendedResource(n):
			// Extended resources can't be overcommitted, so there is a name for requests only.
			c.addUse(requestsPrefix+name, amount)
		}
	}
	slices.SortFunc(c.uses[fixed:], func(a, b use) int { return strings.Compare(string(a.name), string(b.name)) })
}

// hasEnded reports whether, for quotas, a pod no longer runs. A pod whose grace period is over
// counts as ended, even if it is stuck on a lost node; end is when the period ends or ended. If it is
// deleted without such a period, it has ended whatever the time is. (Upstream's computation overflows if the grace period is longer than 292 years, and the pod
// counts as ended at once.)
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#QuotaV1Pod 41cf4229
func (m Meter) hasEnded(pod *corev1.Pod) (ended bool, end time.Time) {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true, time.Time{}
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false, time.Time{}
	}
	if *pod.DeletionGracePeriodSeconds <= 0 {
		// The time of the deletion is that of the request, by the clock of the server that stored it.
		return true, time.Time{}
	}
	if *pod.DeletionGracePeriodSeconds > seconds.Most {
		// The API computes the time of the deletion from this, and has overflowed.
		return false, time.Time{}
	}
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	end = pod.DeletionTimestamp.Add(seconds.Duration(*pod.DeletionGracePeriodSeconds))
	return now().After(end), end
}

// isBestEffort reports whether a pod has the QoS class BestEffort.
//
// Source: k8s.io/kubernetes/pkg/apis/core/v1/helper/qos/qos.go#GetPodQOS 762419c7
func (m Meter) isBestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	return IsBestEffort(pod, m.Off)
}

// IsBestEffort reports whether nothing in a pod requests or limits CPU or memory. It goes by the spec
// alone, and not by the QoS class in the status.
//
// Source: k8s.io/kubernetes/pkg/apis/core/v1/helper/qos/qos.go#ComputePodQOS e646c584
func IsBestEffort(pod *corev1.Pod, off Gates) bool {
	if pod.Spec.Resources != nil && !off.has(PodLevelResources) &&
		(off.has(PodLevelResourcesFixKubeletQOSClass) || resourcehelper.IsPodLevelResourcesSet(pod)) {
		return !wantsCompute(pod.Spec.Resources)
	}
	for i := range pod.Spec.Containers {
		if wantsCompute(&pod.Spec.Containers[i].Resources) {
			return false
		}
	}
	for i := range pod.Spec.InitContainers {
		if wantsCompute(&pod.Spec.InitContainers[i].Resources) {
			return false
		}
	}
	return true
}

func wantsCompute(r *corev1.ResourceRequirements) bool {
	return isPositive(r.Requests, corev1.ResourceCPU) || isPositive(r.Requests, corev1.ResourceMemory) ||
		isPositive(r.Limits, corev1.ResourceCPU) || isPositive(r.Limits, corev1.ResourceMemory)
}

func isPositive(list corev1.ResourceList, name corev1.ResourceName) bool {
	amount, ok := list[name]
	return ok && amount.Sign() > 0
}

// usesOtherNamespaces reports whether an affinity refers to pods in other namespaces.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#usesCrossNamespacePodAffinity e78dbb4f
func usesOtherNamespaces(affinity *corev1.Affinity) bool {
	if affinity == nil {
		return false
	}
	if a := affinity.PodAffinity; a != nil && anyCrossNamespace(a.RequiredDuringSchedulingIgnoredDuringExecution,
		a.PreferredDuringSchedulingIgnoredDuringExecution) {
		return true
	}
	a := affinity.PodAntiAffinity
	return a != nil && anyCrossNamespace(a.RequiredDuringSchedulingIgnoredDuringExecution,
		a.PreferredDuringSchedulingIgnoredDuringExecution)
}

func anyCrossNamespace(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) bool {
	for i := range required {
		if isCrossNamespace(&required[i]) {
			return true
		}
	}
	for i := range preferred {
		if isCrossNamespace(&preferred[i].PodAffinityTerm) {
			return true
		}
	}
	return false
}

func isCrossNamespace(term *corev1.PodAffinityTerm) bool {
	return len(term.Namespaces) != 0 || term.NamespaceSelector != nil
}
