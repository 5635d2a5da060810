// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limitpodhardantiaffinitytopology implements the admission plugin
// LimitPodHardAntiAffinityTopology, which refuses pods with a required anti-affinity to other pods
// whose topology key isn't kubernetes.io/hostname.
//
// Such a pod keeps the pods that its selector matches out of a whole zone, region or rack, so one
// user could keep all others from being scheduled. Preferred anti-affinity can't do that and is
// left alone. So is an update that leaves a stored pod's anti-affinity as it is, because its labels
// and finalizers must stay changeable.
package limitpodhardantiaffinitytopology

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
)

const name = "LimitPodHardAntiAffinityTopology"

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes LimitPodHardAntiAffinityTopology. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses pods with a required anti-affinity that reaches beyond their node",
	Manual:     manual,
	Remedy:     "Give required anti-affinity the topologyKey kubernetes.io/hostname, or make it preferred.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods),
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return limitPodHardAntiAffinityTopology{}, nil
	},
}

type limitPodHardAntiAffinityTopology struct{}

var _ plugin.Validator = limitPodHardAntiAffinityTopology{}

// Validate refuses a pod that keeps other pods out of more than its node.
func (limitPodHardAntiAffinityTopology) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	required := hard(&pod.Spec)
	for i := range required {
		if required[i].TopologyKey == corev1.LabelHostname {
			continue
		}
		if a.GetOperation() == admission.Update {
			stored, err := podspec.Pod(name, a.GetOldObject())
			if err != nil {
				return err
			}
			if apiequality.Semantic.DeepEqual(required, hard(&stored.Spec)) {
				return nil
			}
		}
		return admission.NewForbidden(a,
			fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is "+
				"allowed",
				required[i].TopologyKey, corev1.LabelHostname))
	}
	return nil
}

// hard returns the required terms of the pod's anti-affinity.
func hard(spec *corev1.PodSpec) []corev1.PodAffinityTerm {
	if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}
