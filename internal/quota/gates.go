package quota

import "k8s.io/component-base/featuregate"

// Gates is a set of those of Kubernetes' feature gates that what objects cost depends on.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core, wherever it asks for a gate.
type Gates uint8

const (
	// PodLevelResources: requests and limits of a pod as a whole count, and spare its containers
	// theirs.
	PodLevelResources Gates = 1 << iota
	// InPlacePodVerticalScaling: what a pod's status says its containers have counts, too.
	InPlacePodVerticalScaling
	// VolumeAttributesClass: persistent volume claims are in the scope of that name.
	VolumeAttributesClass
	// RecoverVolumeExpansionFailure: what is allocated counts where less is requested now.
	RecoverVolumeExpansionFailure
	// DynamicResourceAllocation: resource claims count by their devices, and not only as objects.
	DynamicResourceAllocation
	// DRAExtendedResource: these devices count by the names of extended resources, too.
	DRAExtendedResource
)

var gates = map[Gates]featuregate.Feature{
	PodLevelResources:             "PodLevelResources",
	InPlacePodVerticalScaling:     "InPlacePodVerticalScaling",
	VolumeAttributesClass:         "VolumeAttributesClass",
	RecoverVolumeExpansionFailure: "RecoverVolumeExpansionFailure",
	DynamicResourceAllocation:     "DynamicResourceAllocation",
	DRAExtendedResource:           "DRAExtendedResource",
}

// GatesOff are those that are off. enabled must know them all.
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
