// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extendedresourcetoleration implements the admission plugin ExtendedResourceToleration,
// which lets pods that request an extended resource, such as a GPU, onto the nodes that are
// reserved for them.
//
// An administrator reserves nodes with a taint whose key is the name of the resource, such as
// example.com/gpu:NoSchedule. A pod with a container or init container that requests the resource
// gets a toleration for that key and all values.
//
// An extended resource is defined as in Kubernetes: its name has a domain other than kubernetes.io,
// doesn't begin with "requests.", and is still a qualified name with "requests." before it, because
// a quota needs that.
package extendedresourcetoleration

import (
	"context"
	_ "embed"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
)

const name = "ExtendedResourceToleration"

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes ExtendedResourceToleration. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Lets pods that request an extended resource onto nodes tainted with its name",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods),
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return extendedResourceToleration{}, nil
	},
}

type extendedResourceToleration struct{}

var _ plugin.Mutator = extendedResourceToleration{}

// Admit adds a toleration for each extended resource that the pod requests, in the order of their
// names.
func (extendedResourceToleration) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	tolerate(&pod.Spec, extendedResources(&pod.Spec))
	return nil
}

// extendedResources returns the names of the extended resources that any container requests,
// sorted.
func extendedResources(spec *corev1.PodSpec) []string {
	var names []string
	for _, container := range podspec.All(spec) {
		for name := range container.Resources.Requests {
			if isExtended(string(name)) {
				names = append(names, string(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func isExtended(resource string) bool {
	// Most pods request only cpu and memory, so the slow check is the last one.
	return strings.Contains(resource, "/") &&
		!strings.Contains(resource, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(resource, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+resource)) == 0
}

// tolerate adds a toleration for each taint. It replaces a toleration with the same key, operator
// and effect: its other fields, such as seconds, make no sense with this effect.
//
// Source: k8s.io/kubernetes/pkg/apis/core/helper/helpers.go#AddOrUpdateTolerationInPod 6e424605
func tolerate(spec *corev1.PodSpec, taints []string) {
	if len(taints) == 0 {
		return
	}
	same := map[string][]int{} // the indices of the tolerations to replace, by key
	for i := range spec.Tolerations {
		wanted := toleration(spec.Tolerations[i].Key)
		if spec.Tolerations[i].MatchToleration(&wanted) {
			same[wanted.Key] = append(same[wanted.Key], i)
		}
	}
	for _, key := range taints {
		for _, i := range same[key] {
			spec.Tolerations[i] = toleration(key)
		}
		if len(same[key]) == 0 {
			spec.Tolerations = append(spec.Tolerations, toleration(key))
		}
	}
}

func toleration(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
}
