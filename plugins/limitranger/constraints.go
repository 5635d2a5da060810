// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// usage holds the resources that a container, a pod or a claim asks for. For a claim, limits is nil
// and not checked.
type usage struct {
	requests, limits corev1.ResourceList
}

// podViolations returns a function that returns a pod's violations of a LimitRange, in the order of
// its items. podLevel reports whether the pod's own resources count.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger#PodValidateLimitFunc c546e30c
func podViolations(pod *corev1.Pod, podLevel bool) func(*corev1.LimitRange) []error {
	var sum *usage // of the whole pod, once it is needed
	return func(limitRange *corev1.LimitRange) (violations []error) {
		for i := range limitRange.Spec.Limits {
			item := &limitRange.Spec.Limits[i]
			switch item.Type {
			case corev1.LimitTypeContainer:
				for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
					for j := range containers {
						resources := &containers[j].Resources
						violations = append(violations, usage{resources.Requests, resources.Limits}.violations(item)...)
					}
				}
			case corev1.LimitTypePod:
				if sum == nil {
					sum = podUsage(pod, podLevel)
				}
				violations = append(violations, sum.violations(item)...)
			}
		}
		return violations
	}
}

// podUsage returns the usage of a whole pod: the sum of its containers, or the pod's own cpu and
// memory. As upstream, it leaves out overhead, and huge pages that the pod itself states.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger#podRequests ccc12e21
// Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger#podLimits e60473c1
func podUsage(pod *corev1.Pod, podLevel bool) *usage {
	options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true, SkipPodLevelResources: true}
	sum := &usage{requests: resourcehelper.PodRequests(pod, options), limits: resourcehelper.PodLimits(pod, options)}
	if !podLevel || pod.Spec.Resources == nil {
		return sum
	}
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount, ok := pod.Spec.Resources.Requests[name]; ok {
			sum.requests[name] = amount
		}
		if amount, ok := pod.Spec.Resources.Limits[name]; ok {
			sum.limits[name] = amount
		}
	}
	return sum
}

// claimViolations does the same for a claim, of which only requests count.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger#PersistentVolumeClaimValidateLimitFunc 50926943
func claimViolations(claim *corev1.PersistentVolumeClaim) func(*corev1.LimitRange) []error {
	requested := usage{requests: claim.Spec.Resources.Requests}
	return func(limitRange *corev1.LimitRange) (violations []error) {
		for i := range limitRange.Spec.Limits {
			if item := &limitRange.Spec.Limits[i]; item.Type == corev1.LimitTypePersistentVolumeClaim {
				violations = append(violations, checkEach(item.Type, item.Min, requested.min)...)
				violations = append(violations, checkEach(item.Type, item.Max, requested.maxRequest)...)
			}
		}
		return violations
	}
}

func (u usage) violations(item *corev1.LimitRangeItem) []error {
	violations := checkEach(item.Type, item.Min, u.min)
	violations = append(violations, checkEach(item.Type, item.Max, u.max)...)
	return append(violations, checkEach(item.Type, item.MaxLimitRequestRatio, u.ratio)...)
}

// A constraint returns what is wrong with the use of a resource, nil if nothing is.
type constraint func(of corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity) error

// checkEach checks a constraint on every limited resource, and returns the violations in the order
// of the resources' names.
func checkEach(of corev1.LimitType, limited corev1.ResourceList, holds constraint) []error {
	var violations []error
	for name, enforced := range limited {
		if err := holds(of, name, enforced); err != nil {
			violations = append(violations, err)
		}
	}
	// The order of a map is random. Messages are sorted: they first differ in the resource's name.
	slices.SortFunc(violations, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return violations
}

func (u usage) min(of corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity) error {
	request, requested := u.requests[name]
	limit, limited := u.limits[name]
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, of, enforced.String())
	case request.Cmp(enforced) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, of, enforced.String(),
			request.String())
	case limited && limit.Cmp(enforced) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, of, enforced.String(), limit.String())
	}
	return nil
}

func (u usage) max(of corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity) error {
	request, requested := u.requests[name]
	limit, limited := u.limits[name]
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, of, enforced.String())
	case limit.Cmp(enforced) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, of, enforced.String(), limit.String())
	case requested && request.Cmp(enforced) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, of, enforced.String(),
			request.String())
	}
	return nil
}

// maxRequest checks the maximum for objects that have no limits, such as claims.
func (u usage) maxRequest(of corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity) error {
	request, requested := u.requests[name]
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, of, enforced.String())
	case request.Cmp(enforced) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, of, enforced.String(),
			request.String())
	}
	return nil
}

// ratio checks the most that a limit may be of its request. It compares exactly.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger#limitRequestRatioConstraint 7ae00151
func (u usage) ratio(of corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity) error {
	request, limit := u.requests[name], u.limits[name]
	switch {
	case request.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0",
			name, of, enforced.String())
	case limit.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name,
			of, enforced.String())
	}
	// This is limit/request > enforced, without dividing. The product is made in a deep copy,
	// because other copies of a quantity share its digits.
	text := enforced.String()
	allowed := enforced.DeepCopy()
	product := allowed.AsDec()
	if limit.AsDec().Cmp(product.Mul(product, request.AsDec())) > 0 {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f",
			name, of, text, quotient(limit, request))
	}
	return nil
}

// quotient returns limit/request for a message, equal to upstream's number to the last digit.
func quotient(limit, request resource.Quantity) float64 {
	if max(limit.Value(), request.Value()) <= resource.MaxMilliValue {
		return float64(limit.MilliValue()) / float64(request.MilliValue())
	}
	return limit.AsApproximateFloat64() / request.AsApproximateFloat64()
}
