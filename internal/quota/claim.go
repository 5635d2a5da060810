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

// Others are the objects that what a resource claim costs depends on. What isn't there is no error.
type Others interface {
	// ExtendedResource is the name of the extended resource that devices of a device class also are
	// (spec.extendedResourceName), "" if there is none.
	//
	// Source: ExtendedResourceCache in
	// k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache.
	ExtendedResource(deviceClass string) (string, error)
	// Pod is a pod, nil if there is none.
	Pod(namespace, name string) (*corev1.Pod, error)
	// Claims are a namespace's resource claims.
	Claims(namespace string) ([]*resourcev1.ResourceClaim, error)
}

// Tied tells whether what an object of a resource costs depends on other objects, so that a Meter
// needs Others to measure it.
func Tied(resource schema.GroupResource, off Gates) bool {
	return resource == resourceClaims && !off.has(DRAExtendedResource)
}

// claim measures a resource claim.
//
// Source: Usage in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go.
func (m Meter) claim(claim *resourcev1.ResourceClaim) (*Cost, error) {
	if m.Off.has(DynamicResourceAllocation) {
		return ofCounted(resourceClaims), nil
	}
	devices := devicesOf(claim)
	c := &Cost{uses: make([]use, 0, 1+3*len(devices))}
	c.count(countClaims, 1)
	for class, n := range devices {
		c.count(corev1.ResourceName(class+deviceClassSuffix), n)
	}
	if !m.Off.has(DRAExtendedResource) {
		if err := m.useExtended(c, claim, devices); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.uses[1:], func(a, b use) int { return strings.Compare(string(a.name), string(b.name)) })
	return c, nil
}

// useExtended adds a claim's devices by the names of the extended resources that they are.
//
// Source: addExtendedResourceQuota in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go.
func (m Meter) useExtended(c *Cost, claim *resourcev1.ResourceClaim, devices map[string]int64) error {
	extended := map[corev1.ResourceName]int64{}
	for class, n := range devices {
		if class == "" {
			continue
		}
		extended[corev1.ResourceName(requestsPrefix+deviceClassPrefix+class)] += n
		if m.Others == nil {
			continue
		}
		name, err := m.Others.ExtendedResource(class)
		if err != nil {
			return err
		}
		if name != "" {
			extended[corev1.ResourceName(requestsPrefix+name)] += n
		}
	}
	owner := podOf(claim)
	if owner == nil || len(extended) == 0 {
		c.useDevices(extended, nil)
		return nil
	}
	c.kin = owner.UID
	pod, err := m.accounts(claim, owner)
	if err != nil {
		return err
	}
	c.useDevices(extended, pod)
	return nil
}

// useDevices adds devices by extended resources' names, but for what the pod's requests account
// for.
func (c *Cost) useDevices(extended map[corev1.ResourceName]int64, pod *Cost) {
	for name, n := range extended {
		amount := *resource.NewQuantity(n, resource.DecimalSI)
		if accounted := pod.amount(name); accounted != nil {
			amount.Sub(*accounted)
		}
		if amount.Sign() > 0 {
			c.use(name, amount)
		}
	}
}

// devicesOf are how many devices of each class a claim can get at most.
func devicesOf(claim *resourcev1.ResourceClaim) map[string]int64 {
	devices := map[string]int64{}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		switch {
		case len(request.FirstAvailable) > 0:
			// Any of them may be chosen: of each class, the most that can come of it.
			most := map[string]int64{}
			for j := range request.FirstAvailable {
				sub := &request.FirstAvailable[j]
				most[sub.DeviceClassName] = max(most[sub.DeviceClassName], requested(sub.AllocationMode, sub.Count))
			}
			for class, n := range most {
				if n > 0 {
					devices[class] += n
				}
			}
		case request.Exactly != nil:
			devices[request.Exactly.DeviceClassName] += requested(request.Exactly.AllocationMode, request.Exactly.Count)
		}
	}
	return devices
}

// requested is the number of devices that a request can get at most. A mode that is unknown counts
// nothing.
func requested(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// podOf is the pod for whose extended resources the scheduler says to have made a claim, nil of
// other claims.
func podOf(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return nil
	}
	return owner
}

// PodOf is the UID of the pod for whose extended resources the scheduler says to have made a claim,
// "" for other claims.
func PodOf(claim *resourcev1.ResourceClaim) types.UID {
	if owner := podOf(claim); owner != nil {
		return owner.UID
	}
	return ""
}

// accounts is the cost of the pod whose requests account for a claim's devices already, nil where
// that isn't so: the pod isn't that one, names another claim or, while it names none, has an older
// one.
//
// Source: getVerifiedPodUsage in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go.
func (m Meter) accounts(claim *resourcev1.ResourceClaim, owner *metav1.OwnerReference) (*Cost, error) {
	if m.Others == nil {
		return nil, nil
	}
	pod, err := m.Others.Pod(claim.Namespace, owner.Name)
	if err != nil || pod == nil || pod.UID != owner.UID {
		return nil, err
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		if status.ResourceClaimName != claim.Name {
			return nil, nil
		}
		return m.pod(pod), nil
	}
	all, err := m.Others.Claims(claim.Namespace)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if by := podOf(other); by != nil && by.UID == owner.UID && before(other, claim) {
			return nil, nil
		}
	}
	return m.pod(pod), nil
}

// before tells whether a claim is older than another; of one second, names decide.
func before(a, b *resourcev1.ResourceClaim) bool {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	return a.Name < b.Name
}

// Kin is the pod that an object's extended resources are about: that of a pod which requests some,
// and of a resource claim that the scheduler made for them. It is "" of all other objects. Where
// two objects are kin, a write to one may change what the other costs.
func (c *Cost) Kin() types.UID {
	if c == nil {
		return ""
	}
	return c.kin
}

// Certain is what c gives back for sure when its object goes. A claim that the scheduler made may
// have been charged by extended resources' names, or may have been accounted for by a pod that has
// gone since: that can't be seen in it, and takes a count. Of all other objects it is c.
func (c *Cost) Certain() *Cost {
	if c == nil || c.kind != counted || c.kin == "" {
		return c
	}
	isSure := func(u use) bool { return !isExtendedForQuota(string(u.name)) }
	if !slices.ContainsFunc(c.uses, func(u use) bool { return !isSure(u) }) {
		return c
	}
	certain := *c
	certain.uses, certain.less = nil, true
	for _, u := range c.uses {
		if isSure(u) {
			certain.uses = append(certain.uses, u)
		}
	}
	return &certain
}

// Uncertain tells whether the write gives back less than its object may have been charged, so that
// it takes a count to know; see Certain.
func (c Change) Uncertain() bool { return c.Old != nil && c.Old.less }

// Unties tells whether the write may change what kin of its object cost. The claim that is named is
// excepted, where it was the pod's first: it costs what it did when the pod begins to name it.
func (c Change) Unties() (may bool, named string) {
	switch {
	case c.Old.Kin() == "" && c.New.Kin() == "":
		return false, ""
	case c.Resource == resourceClaims || c.Moves():
		// A new pod has no claims yet.
		return c.Moves() && (c.Resource == resourceClaims || c.Old != nil), ""
	case c.Old.claim != c.New.claim:
		return true, c.New.claim
	}
	return false, ""
}
