// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// RelatedObjects returns the objects that the cost of a resource claim depends on. An object that
// doesn't exist is no error.
type RelatedObjects interface {
	// ExtendedResource returns the name of the extended resource that the devices of a device class
	// are as well (spec.extendedResourceName), "" if there is none.
	//
	// Source: k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache#ExtendedResourceCache 59247e68
	ExtendedResource(deviceClass string) (string, error)
	// Pod returns a pod, nil if it doesn't exist.
	Pod(namespace, name string) (*corev1.Pod, error)
	// Claims returns a namespace's resource claims.
	Claims(namespace string) ([]*resourcev1.ResourceClaim, error)
}

// DependsOnRelated reports whether the cost of an object of a resource depends on other objects, so
// that a Meter needs RelatedObjects to measure it.
func DependsOnRelated(resource schema.GroupResource, off Gates) bool {
	return resource == resourceClaims && !off.has(DRAExtendedResource)
}

// claimCost returns the cost of a resource claim.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go#Usage e3881d93
func (m Meter) claimCost(claim *resourcev1.ResourceClaim) (*Cost, error) {
	if m.Off.has(DynamicResourceAllocation) {
		return countedCost(resourceClaims), nil
	}
	devices := countDevices(claim)
	c := &Cost{uses: make([]use, 0, 1+3*len(devices))}
	c.addCount(countClaims, 1)
	for class, n := range devices {
		c.addCount(corev1.ResourceName(class+deviceClassSuffix), n)
	}
	if !m.Off.has(DRAExtendedResource) {
		if err := m.addExtended(c, claim, devices); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.uses[1:], func(a, b use) int { return strings.Compare(string(a.name), string(b.name)) })
	return c, nil
}

// addExtended adds a claim's devices under the names of the extended resources that they are.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go#addExtendedResourceQuota a1ca182b
func (m Meter) addExtended(c *Cost, claim *resourcev1.ResourceClaim, devices map[string]int64) error {
	extended := map[corev1.ResourceName]int64{}
	for class, n := range devices {
		if class == "" {
			continue
		}
		extended[corev1.ResourceName(requestsPrefix+deviceClassPrefix+class)] += n
		if m.Related == nil {
			continue
		}
		name, err := m.Related.ExtendedResource(class)
		if err != nil {
			return err
		}
		if name != "" {
			extended[corev1.ResourceName(requestsPrefix+name)] += n
		}
	}
	owner := ownerPod(claim)
	if owner == nil || len(extended) == 0 {
		c.addDevices(extended, nil)
		return nil
	}
	c.kin = owner.UID
	pod, err := m.accountingPodCost(claim, owner)
	if err != nil {
		return err
	}
	c.addDevices(extended, pod)
	return nil
}

// addDevices adds devices under the names of extended resources, less what the pod's requests
// account for.
func (c *Cost) addDevices(extended map[corev1.ResourceName]int64, pod *Cost) {
	for name, n := range extended {
		amount := *resource.NewQuantity(n, resource.DecimalSI)
		if accounted := pod.amount(name); accounted != nil {
			amount.Sub(*accounted)
		}
		if amount.Sign() > 0 {
			c.addUse(name, amount)
		}
	}
}

// countDevices returns how many devices of each class a claim can get at most.
func countDevices(claim *resourcev1.ResourceClaim) map[string]int64 {
	devices := map[string]int64{}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		switch {
		case len(request.FirstAvailable) > 0:
			// Any of them may be chosen, so the largest number of each class counts.
			most := map[string]int64{}
			for j := range request.FirstAvailable {
				sub := &request.FirstAvailable[j]
				most[sub.DeviceClassName] = max(most[sub.DeviceClassName], maxDevices(sub.AllocationMode, sub.Count))
			}
			for class, n := range most {
				if n > 0 {
					devices[class] += n
				}
			}
		case request.Exactly != nil:
			devices[request.Exactly.DeviceClassName] += maxDevices(request.Exactly.AllocationMode, request.Exactly.Count)
		}
	}
	return devices
}

// maxDevices returns how many devices a request can get at most, 0 for an unknown mode.
func maxDevices(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// ownerPod returns the pod for whose extended resources the scheduler made the claim, nil for other
// claims.
func ownerPod(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return nil
	}
	return owner
}

// OwnerPodUID returns the UID of the pod for whose extended resources the scheduler made the claim,
// "" for other claims.
func OwnerPodUID(claim *resourcev1.ResourceClaim) types.UID {
	if owner := ownerPod(claim); owner != nil {
		return owner.UID
	}
	return ""
}

// accountingPodCost returns the cost of the owner pod if the pod's requests already account for the
// claim's devices, else nil. They don't if the pod has been replaced, if it names another claim, or
// if it names none and has an older one.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go#getVerifiedPodUsage 78ec739a
func (m Meter) accountingPodCost(claim *resourcev1.ResourceClaim, owner *metav1.OwnerReference) (*Cost, error) {
	if m.Related == nil {
		return nil, nil
	}
	pod, err := m.Related.Pod(claim.Namespace, owner.Name)
	if err != nil || pod == nil || pod.UID != owner.UID {
		return nil, err
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		if status.ResourceClaimName != claim.Name {
			return nil, nil
		}
		return m.podCost(pod), nil
	}
	all, err := m.Related.Claims(claim.Namespace)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if pod := ownerPod(other); pod != nil && pod.UID == owner.UID && isOlder(other, claim) {
			return nil, nil
		}
	}
	return m.podCost(pod), nil
}

// isOlder reports whether a claim is older than another. If both are of the same second, names
// decide.
func isOlder(a, b *resourcev1.ResourceClaim) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	return a.Name < b.Name
}

// Kin returns the UID of the pod whose extended resources the object is about. It is set for a pod
// that requests some, and for a resource claim that the scheduler made for such a pod; else it is
// "". Objects with the same Kin are kin: a write to one may change what the other costs.
func (c *Cost) Kin() types.UID {
	if c == nil {
		return ""
	}
	return c.kin
}

// CertainPart returns the part of c that is certainly given back when the object is deleted. A
// claim that the scheduler made may have been charged under names of extended resources, or a pod
// that is gone since may have accounted for it. The claim doesn't show which; it takes a count. For
// all other objects CertainPart returns c.
func (c *Cost) CertainPart() *Cost {
	if c == nil || c.kind != otherKind || c.kin == "" {
		return c
	}
	isCertain := func(u use) bool { return !isExtendedQuotaName(string(u.name)) }
	if !slices.ContainsFunc(c.uses, func(u use) bool { return !isCertain(u) }) {
		return c
	}
	certain := *c
	certain.uses, certain.isPartial = nil, true
	for _, u := range c.uses {
		if isCertain(u) {
			certain.uses = append(certain.uses, u)
		}
	}
	return &certain
}

// IsUncertain reports whether the write gives back less than its object may have been charged, so
// that the usage has to be counted again; see CertainPart.
func (c Change) IsUncertain() bool { return c.Old != nil && c.Old.isPartial }

// AffectsKin reports whether the write may change what kin of its object cost. named is a claim
// that the pod begins to name. If it was the pod's first, it costs the same as before.
func (c Change) AffectsKin() (affects bool, named string) {
	switch {
	case c.Old.Kin() == "" && c.New.Kin() == "":
		return false, ""
	case c.Resource == resourceClaims || c.MovesUsage():
		// A new pod has no claims yet.
		return c.MovesUsage() && (c.Resource == resourceClaims || c.Old != nil), ""
	case c.Old.claim != c.New.claim:
		return true, c.New.claim
	}
	return false, ""
}
