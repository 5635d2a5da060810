// Package limitpodhardantiaffinitytopology is the plugin LimitPodHardAntiAffinityTopology: it
// refuses pods with a required (hard) anti-affinity to other pods whose topology key is any other
// than kubernetes.io/hostname.
//
// Such a pod keeps whichever pods its selector matches out of a whole zone, region or rack that it
// runs in. On one node it is one pod's matter; beyond, one user could keep all others from being
// scheduled. Preferred anti-affinity is no such threat, and is left alone.
//
// # Updates
//
// The anti-affinity of a stored pod can't change. An update that leaves it as it is isn't refused,
// so that labels and finalizers of a pod from before the plugin was on can change.
package limitpodhardantiaffinitytopology

import (
	"context"
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

// Descriptor is LimitPodHardAntiAffinityTopology, not yet built. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses pods with a required anti-affinity that reaches beyond their node",
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

// Validate refuses a pod that keeps others out of more than its node.
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

// hard are the required terms of the pod's anti-affinity.
func hard(spec *corev1.PodSpec) []corev1.PodAffinityTerm {
	if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}
