// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodedeclaredfeaturevalidator implements the admission plugin
// NodeDeclaredFeatureValidator, which refuses what needs a feature that the kubelet of the node
// doesn't support yet: some updates of pods, and some devices of ResourceSlices.
//
// Kubelets may be up to three minor versions older than the API server, or have features switched
// off. They declare their features in the node's status.declaredFeatures, and the scheduler keeps
// new pods away from nodes that lack one. This plugin checks updates and resizes of pods that have
// a node already. Like the kubelet and the scheduler, it uses
// k8s.io/component-helpers/nodedeclaredfeatures to find out which update needs which feature.
//
// A device with node-allocatable resources, such as its own cpu, needs a feature of every node that it
// is for. The plugin checks that if the feature gate DRANodeAllocatableResources is on, which it isn't
// by default.
//
// The plugin does nothing if the feature gate NodeDeclaredFeatures is off.
package nodedeclaredfeaturevalidator

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	versionutil "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/version"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
)

const name = "NodeDeclaredFeatureValidator"

// nodeAllocatable is Kubernetes' feature gate for devices that have resources of their nodes.
const nodeAllocatable featuregate.Feature = "DRANodeAllocatableResources"

var resourceSlices = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}

//go:embed README.md
var manual string

// Descriptor describes NodeDeclaredFeatureValidator. It needs informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses to change pods to what their node doesn't know yet",
	Manual:     manual,
	Remedy:     "Leave out what the node doesn't have, or take a node that has it.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  slices.Concat(plugin.On(corev1.Resource("pods"), "", "resize"), plugin.On(resourceSlices)),
	Gate:       "NodeDeclaredFeatures",
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("list watch", "", "nodes"), plugin.AskGates},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Informers == nil {
			return nil, errors.New(name + " needs informers")
		}
		current, err := versionutil.Parse(version.DefaultKubeBinaryVersion)
		if err != nil {
			return nil, fmt.Errorf("%s: the version of Kubernetes: %w", name, err)
		}
		nodes := env.Informers.Core().V1().Nodes()
		return &nodeDeclaredFeatureValidator{ready.After(nodes.Informer()), nodes.Lister(),
			features.DefaultFramework, current, env.Enabled(nodeAllocatable)}, nil
	},
}

type nodeDeclaredFeatureValidator struct {
	synced ready.Gate
	nodes  corev1listers.NodeLister
	known  *features.Framework
	// current is the version of Kubernetes. All nodes of a version have some features without
	// declaring them.
	current *versionutil.Version
	// slices says whether ResourceSlices are checked.
	slices bool
}

var _ plugin.Validator = &nodeDeclaredFeatureValidator{}

// Validate refuses what needs a feature which a node doesn't declare.
func (p *nodeDeclaredFeatureValidator) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	switch {
	case a.GetResource().GroupResource() == resourceSlices:
		if p.slices {
			return p.validateSlice(ctx, a)
		}
	case a.GetOperation() == admission.Update:
		return p.validatePod(ctx, a)
	}
	return nil
}

func (p *nodeDeclaredFeatureValidator) validatePod(ctx context.Context, a admission.Attributes) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil || pod.Spec.NodeName == "" {
		return err
	}
	old, err := podspec.Pod(name, a.GetOldObject())
	// The generation changes only with the spec.
	if err != nil || old.Generation == pod.Generation {
		return err
	}
	needed, err := p.known.InferForPodUpdate(&types.PodInfo{Spec: &old.Spec, Status: &old.Status},
		&types.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, p.current)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to infer pod capability requirements: %w", err))
	}
	if needed.IsEmpty() {
		return nil
	}
	if err := p.synced.Wait(ctx, a); err != nil {
		return err
	}
	node, err := p.nodes.Get(pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		return admission.NewForbidden(a, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	}
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
	}
	result, err := p.known.MatchNode(needed, node)
	if err != nil {
		return admission.NewForbidden(a,
			fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err))
	}
	if !result.IsMatch {
		return admission.NewForbidden(a,
			fmt.Errorf("pod update requires features %s which are not available on node %q",
				strings.Join(result.UnsatisfiedRequirements, ", "), node.Name))
	}
	return nil
}
