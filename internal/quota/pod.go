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

// pod measures a pod.
//
// Source: PodUsageFunc and podMatchesScopeFunc in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
func (m Meter) pod(pod *corev1.Pod) *Cost {
	c := &Cost{
		kind:           aPod,
		terminating:    pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0,
		bestEffort:     m.isBestEffort(pod),
		crossNamespace: usesOtherNamespaces(pod.Spec.Affinity),
		priorityClass:  pod.Spec.PriorityClassName,
		unstated:       m.unstatedBy(pod),
	}
	if requestsExtended(pod) {
		c.kin = pod.UID
		if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
			c.claim = status.ResourceClaimName
		}
	}
	ended, end := m.ended(pod)
	if ended {
		c.expired = end
		// What is stored is counted, what doesn't run any more uses nothing.
		c.uses = make([]use, 0, 1)
		c.count(countPods, 1)
		return c
	}
	c.expires = end
	s := sumsPool.Get().(*sums)
	defer sumsPool.Put(s)
	s.of(pod, m.Off)
	c.uses = make([]use, 0, 2+2*len(s.requests)+len(s.limits))
	c.count(countPods, 1)
	c.count(corev1.ResourcePods, 1)
	c.usePod(s.requests, s.limits)
	return c
}

// sums are requests and limits of a whole pod. They are used again for the next pod: their maps are
// most of what it takes to measure one.
type sums struct{ requests, limits corev1.ResourceList }

var sumsPool = sync.Pool{New: func() any {
	return &sums{requests: corev1.ResourceList{},
		limits: corev1.ResourceList{}}
}}

// of sets s to what the pod's containers, sidecars, init containers and overhead add up to, or the
// pod states for itself, including what a resize is about to free or has not got yet.
func (s *sums) of(pod *corev1.Pod, off Gates) {
	options := resourcehelper.PodResourcesOptions{
		// Without resources in the status there is nothing to see there, and the look isn't free.
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

// podNames are quotas' names for what pods request and limit most.
var podNames = [...]struct{ resource, plain, requests, limits corev1.ResourceName }{
	{corev1.ResourceCPU, corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU},
	{corev1.ResourceMemory, corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory},
	{corev1.ResourceEphemeralStorage, corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsEphemeralStorage},
}

// requestsExtended tells whether a container of a pod requests an extended resource.
func requestsExtended(pod *corev1.Pod) bool {
	for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if isExtended(string(name)) {
					return true
				}
			}
		}
	}
	return false
}

// usePod adds a pod's requests and limits by the names that quotas have for them.
//
// Source: podComputeUsageHelper in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
func (c *Cost) usePod(requests, limits corev1.ResourceList) {
	usual := 0
	for i := range podNames {
		names := &podNames[i]
		if amount, ok := requests[names.resource]; ok {
			usual++
			c.use(names.plain, amount)
			c.use(names.requests, amount)
		}
		if amount, ok := limits[names.resource]; ok {
			c.use(names.limits, amount)
		}
	}
	if len(requests) == usual {
		return
	}
	fixed := len(c.uses)
	for name, amount := range requests {
		switch n := string(name); {
		case strings.HasPrefix(n, corev1.ResourceHugePagesPrefix):
			c.use(name, amount)
			c.use(requestsPrefix+name, amount)
		case isExtended(n):
			// Of an extended resource there is only the requests. name: it can't be overcommitted.
			c.use(requestsPrefix+name, amount)
		}
	}
	slices.SortFunc(c.uses[fixed:], func(a, b use) int { return strings.Compare(string(a.name), string(b.name)) })
}

// ended tells whether a pod runs no more, as far as quotas are concerned. The time is when it is
// taken, or was taken, for ended though it may be stuck on a node that is lost. (Upstream computes
// it with an overflow where the grace period is longer than 292 years, and takes the pod for ended
// at once.)
//
// Source: QuotaV1Pod in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
func (m Meter) ended(pod *corev1.Pod) (ended bool, end time.Time) {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true, time.Time{}
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false, time.Time{}
	}
	if *pod.DeletionGracePeriodSeconds > seconds.Most {
		// The API has computed the time of the deletion from it, with an overflow: that says
		// nothing.
		return false, time.Time{}
	}
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	end = pod.DeletionTimestamp.Add(seconds.Duration(*pod.DeletionGracePeriodSeconds))
	return now().After(end), end
}

// isBestEffort tells whether a pod is of the QoS class BestEffort: nothing in it requests or limits
// CPU or memory.
//
// Source: GetPodQOS in k8s.io/kubernetes/pkg/apis/core/v1/helper/qos/qos.go.
func (m Meter) isBestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	if pod.Spec.Resources != nil && !m.Off.has(PodLevelResources) {
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
	return positive(r.Requests, corev1.ResourceCPU) || positive(r.Requests, corev1.ResourceMemory) ||
		positive(r.Limits, corev1.ResourceCPU) || positive(r.Limits, corev1.ResourceMemory)
}

func positive(list corev1.ResourceList, name corev1.ResourceName) bool {
	amount, ok := list[name]
	return ok && amount.Sign() > 0
}

// usesOtherNamespaces tells whether an affinity looks at pods in other namespaces.
//
// Source: usesCrossNamespacePodAffinity in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
func usesOtherNamespaces(affinity *corev1.Affinity) bool {
	if affinity == nil {
		return false
	}
	if a := affinity.PodAffinity; a != nil && anyCrosses(a.RequiredDuringSchedulingIgnoredDuringExecution,
		a.PreferredDuringSchedulingIgnoredDuringExecution) {
		return true
	}
	a := affinity.PodAntiAffinity
	return a != nil &&
		anyCrosses(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
}

func anyCrosses(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) bool {
	for i := range required {
		if crosses(&required[i]) {
			return true
		}
	}
	for i := range preferred {
		if crosses(&preferred[i].PodAffinityTerm) {
			return true
		}
	}
	return false
}

func crosses(term *corev1.PodAffinityTerm) bool {
	return len(term.Namespaces) != 0 || term.NamespaceSelector != nil
}
