// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// serviceCost returns the cost of a service.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/services.go#Usage 5b03c072
func serviceCost(service *corev1.Service) *Cost {
	var nodePorts, loadBalancers int64
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		nodePorts = int64(len(service.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		loadBalancers = 1
		// Ports are allocated after admission, so the number of intended ports counts.
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
	c.addCount(countServices, 1)
	c.addCount(corev1.ResourceServices, 1)
	c.addCount(corev1.ResourceServicesLoadBalancers, loadBalancers)
	c.addCount(corev1.ResourceServicesNodePorts, nodePorts)
	return c
}

// volumeClaimCost returns the cost of a persistent volume claim.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims.go#Usage 5f8a8ea5
func (m Meter) volumeClaimCost(claim *corev1.PersistentVolumeClaim) *Cost {
	c := &Cost{uses: make([]use, 0, 5)}
	if !m.Off.has(VolumeAttributesClass) {
		c.kind, c.attributesClasses = volumeClaimKind, attributesClasses(claim)
	}
	c.addCount(countPVCs, 1)
	c.addCount(corev1.ResourcePersistentVolumeClaims, 1)
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if class != "" {
		c.addCount(corev1.ResourceName(class+classClaimsSuffix), 1)
	}
	if storage, ok := m.requestedStorage(claim); ok {
		c.addUse(corev1.ResourceRequestsStorage, storage)
		if class != "" {
			c.addUse(corev1.ResourceName(class+classStorageSuffix), storage)
		}
	}
	return c
}

// requestedStorage returns the storage that a claim requests. If an expansion was begun and a
// smaller size requested afterwards, it returns the allocated storage. The result is in whole
// bytes, as a quota's status must be.
func (m Meter) requestedStorage(claim *corev1.PersistentVolumeClaim) (resource.Quantity, bool) {
	requested, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return resource.Quantity{}, false
	}
	requested = wholeBytes(requested)
	if m.Off.has(RecoverVolumeExpansionFailure) {
		return requested, true
	}
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

// attributesClasses returns the volume attributes classes that a claim has, requests or is changing
// to.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims.go#getReferencedVolumeAttributesClassNames 8ea454a5
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
