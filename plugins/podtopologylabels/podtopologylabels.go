// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podtopologylabels implements the admission plugin PodTopologyLabels, which copies the
// zone and region of a node to its pods.
//
// Programs in a pod can read the pod's own labels through the downward API, but not its node's. The
// plugin copies the labels topology.kubernetes.io/zone and topology.kubernetes.io/region when a
// Binding of a pod is created, from which the API server takes them, and when a pod is created that
// names its node already. The node's labels replace the pod's; a label that the node doesn't have
// stays. A pod whose node isn't there, or not known yet, is left alone. The plugin does nothing if
// the feature gate PodTopologyLabelsAdmission is off.
package podtopologylabels

import (
	"context"
	_ "embed"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
	"gatehouse.dev/plugins/internal/objects"
)

const (
	name    = "PodTopologyLabels"
	binding = "binding"
)

// copied holds the labels that a pod gets from its node.
var copied = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

//go:embed README.md
var manual string

// Descriptor describes PodTopologyLabels. It needs informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives pods the labels of zone and region of their node",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(corev1.Resource("pods"), "", binding),
	Gate:       "PodTopologyLabelsAdmission",
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("list watch", "", "nodes"), plugin.AskGates},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Informers == nil {
			return nil, errors.New(name + " needs informers")
		}
		nodes := env.Informers.Core().V1().Nodes()
		return &podTopologyLabels{ready.After(nodes.Informer()), nodes.Lister()}, nil
	},
}

type podTopologyLabels struct {
	synced ready.Gate
	nodes  corev1listers.NodeLister
}

var _ plugin.Mutator = &podTopologyLabels{}

// Admit copies the labels of the node that a pod, or a Binding of one, names.
func (p *podTopologyLabels) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() == binding {
		b, err := objects.As[*corev1.Binding](name, a, a.GetObject())
		if err != nil || b.Target.Kind != "Node" {
			return err
		}
		return p.label(ctx, a, &b.ObjectMeta, b.Target.Name)
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil || pod.Spec.NodeName == "" {
		return err
	}
	return p.label(ctx, a, &pod.ObjectMeta, pod.Spec.NodeName)
}

func (p *podTopologyLabels) label(ctx context.Context, a admission.Attributes, object *metav1.ObjectMeta, nodeName string) error {
	if err := p.synced.Wait(ctx, a); err != nil {
		return err
	}
	node, err := p.nodes.Get(nodeName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, key := range copied {
		value, ok := node.Labels[key]
		if !ok {
			continue
		}
		if object.Labels == nil {
			object.Labels = map[string]string{}
		}
		object.Labels[key] = value
	}
	return nil
}
