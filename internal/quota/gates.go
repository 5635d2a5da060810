// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import "k8s.io/component-base/featuregate"

// Gates is a set of the feature gates of Kubernetes that costs depend on.
//
// These are the gates that the evaluators ask for, and IsBestEffort.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core bac3c936
type Gates uint8

const (
	// PodLevelResources: requests and limits of a pod as a whole count, and its containers needn't
	// have any.
	PodLevelResources Gates = 1 << iota
	// PodLevelResourcesFixKubeletQOSClass: requests and limits of a pod as a whole that are empty say nothing
	// about its QoS class.
	PodLevelResourcesFixKubeletQOSClass
	// InPlacePodVerticalScaling: the resources in the containers' statuses count, too.
	InPlacePodVerticalScaling
	// VolumeAttributesClass: persistent volume claims can be in the scope of that name.
	VolumeAttributesClass
	// RecoverVolumeExpansionFailure: the allocated storage counts if less is requested.
	RecoverVolumeExpansionFailure
	// DynamicResourceAllocation: resource claims count by their devices, and not only as objects.
	DynamicResourceAllocation
	// DRAExtendedResource: these devices count by the names of extended resources, too.
	DRAExtendedResource
)

var gates = map[Gates]featuregate.Feature{
	PodLevelResources:                   "PodLevelResources",
	PodLevelResourcesFixKubeletQOSClass: "PodLevelResourcesFixKubeletQOSClass",
	InPlacePodVerticalScaling:           "InPlacePodVerticalScaling",
	VolumeAttributesClass:               "VolumeAttributesClass",
	RecoverVolumeExpansionFailure:       "RecoverVolumeExpansionFailure",
	DynamicResourceAllocation:           "DynamicResourceAllocation",
	DRAExtendedResource:                 "DRAExtendedResource",
}

// GatesOff returns the gates that are off. enabled must know all of them.
func GatesOff(enabled func(featuregate.Feature) bool) Gates {
	var off Gates
	for gate, name := range gates {
		if !enabled(name) {
			off |= gate
		}
	}
	if off.has(DynamicResourceAllocation) {
		off |= DRAExtendedResource
	}
	return off
}

func (g Gates) has(gate Gates) bool { return g&gate != 0 }
