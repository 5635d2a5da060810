package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// ofService measures a service.
//
// Source: Usage in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/services.go.
func ofService(service *corev1.Service) *Cost {
	var nodePorts, loadBalancers int64
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		nodePorts = int64(len(service.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		loadBalancers = 1
		// Ports are allocated after admission, so it is the intent that counts.
		if allocate := service.Spec.AllocateLoadBalancerNodePorts; allocate == nil || *allocate {
			nodePorts = int64(len(service.Spec.Ports))
			break
		}
		for i := range service.Spec.Ports {
			if service.Spec.Ports[i].NodePort != 0 {
				nodePorts++
			}
		}
	}
	c := &Cost{uses: make([]use, 0, 4)}
	c.count(countServices, 1)
	c.count(corev1.ResourceServices, 1)
	c.count(corev1.ResourceServicesLoadBalancers, loadBalancers)
	c.count(corev1.ResourceServicesNodePorts, nodePorts)
	return c
}

// ofVolumeClaim measures a persistent volume claim.
//
// Source: Usage in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims.go.
func ofVolumeClaim(claim *corev1.PersistentVolumeClaim) *Cost {
	c := &Cost{kind: aVolumeClaim, uses: make([]use, 0, 5), attributesClasses: attributesClasses(claim)}
	c.count(countPVCs, 1)
	c.count(corev1.ResourcePersistentVolumeClaims, 1)
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if class != "" {
		c.count(corev1.ResourceName(class+classClaimsSuffix), 1)
	}
	if storage, ok := storageOf(claim); ok {
		c.use(corev1.ResourceRequestsStorage, storage)
		if class != "" {
			c.use(corev1.ResourceName(class+classStorageSuffix), storage)
		}
	}
	return c
}

// storageOf is the storage that a claim requests or, where an expansion was begun and then
// requested smaller, what is allocated. It is in whole bytes, as a quota's status must be.
func storageOf(claim *corev1.PersistentVolumeClaim) (resource.Quantity, bool) {
	requested, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return resource.Quantity{}, false
	}
	requested = wholeBytes(requested)
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(requested) > 0 {
		return wholeBytes(allocated), true
	}
	return requested, true
}

func wholeBytes(amount resource.Quantity) resource.Quantity {
	rounded := amount.DeepCopy()
	if rounded.RoundUp(0) {
		return amount
	}
	return rounded
}

// attributesClasses are the volume attributes classes that a claim has, is to have or is changing
// to.
//
// Source: getReferencedVolumeAttributesClassNames in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims.go.
func attributesClasses(claim *corev1.PersistentVolumeClaim) []string {
	var names []string
	add := func(name *string) {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	add(claim.Spec.VolumeAttributesClassName)
	add(claim.Status.CurrentVolumeAttributesClassName)
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		add(&modify.TargetVolumeAttributesClassName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// claim measures a resource claim.
//
// Source: Usage in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go.
func (m Meter) claim(claim *resourcev1.ResourceClaim) *Cost {
	devices := map[string]int64{}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		switch {
		case len(request.FirstAvailable) > 0:
			// Any of them may be chosen: of each class, the most that can come of it.
			most := map[string]int64{}
			for j := range request.FirstAvailable {
				sub := &request.FirstAvailable[j]
				most[sub.DeviceClassName] = max(most[sub.DeviceClassName], devicesOf(sub.AllocationMode, sub.Count))
			}
			for class, n := range most {
				if n > 0 {
					devices[class] += n
				}
			}
		case request.Exactly != nil:
			devices[request.Exactly.DeviceClassName] += devicesOf(request.Exactly.AllocationMode, request.Exactly.Count)
		}
	}

	c := &Cost{uses: make([]use, 0, 1+3*len(devices))}
	c.count(countClaims, 1)
	extended := map[corev1.ResourceName]int64{}
	for class, n := range devices {
		c.count(corev1.ResourceName(class+deviceClassSuffix), n)
		if class == "" {
			continue
		}
		extended[corev1.ResourceName(requestsPrefix+deviceClassPrefix+class)] = n
		if m.ExtendedResource != nil {
			if name := m.ExtendedResource(class); name != "" {
				extended[corev1.ResourceName(requestsPrefix+name)] = n
			}
		}
	}
	var pod *Cost
	if len(extended) > 0 {
		pod = m.extendedResourcePod(claim)
	}
	for name, n := range extended {
		amount := *resource.NewQuantity(n, resource.DecimalSI)
		// What the pod's requests account for already is not counted again.
		if accounted := pod.amount(name); accounted != nil {
			amount.Sub(*accounted)
		}
		if amount.Sign() > 0 {
			c.use(name, amount)
		}
	}
	slices.SortFunc(c.uses[1:], func(a, b use) int { return strings.Compare(string(a.name), string(b.name)) })
	return c
}

// devicesOf is the number of devices that a request can get at most. A mode that is unknown counts
// nothing.
func devicesOf(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// extendedResourcePod is the cost of the pod for whose extended resources a claim was made, nil for
// other claims.
//
// Source: getVerifiedPodUsage in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go.
func (m Meter) extendedResourcePod(claim *resourcev1.ResourceClaim) *Cost {
	if m.ExtendedResourcePod == nil || claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return nil
	}
	pod := m.ExtendedResourcePod(claim)
	if pod == nil || pod.UID != owner.UID {
		return nil
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil && status.ResourceClaimName != claim.Name {
		return nil
	}
	return m.pod(pod)
}
