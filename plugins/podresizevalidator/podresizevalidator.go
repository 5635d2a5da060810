// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresizevalidator implements the admission plugin PodResizeValidator, which refuses to
// resize a running pod to more than its node has.
//
// An update of pods/resize changes the resources of a pod that a node runs already. No scheduler
// looks at the pod again, and the kubelet could only put the resize off forever. So the cpu and
// memory that the whole pod then requests must be within the node's status.allocatable; the kubelet
// decides whether other pods use it. A node whose label kubernetes.io/os isn't linux can't resize
// pods. A pod without a node is left alone, and so is an update that doesn't change the spec.
package podresizevalidator

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/resource"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
)

const name = "PodResizeValidator"

// The causes that a refusal's details name.
const (
	nodeCapacity        metav1.CauseType = "NodeCapacity"
	unsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

//go:embed README.md
var manual string

// Descriptor describes PodResizeValidator. It needs informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses to resize pods to what their node can't give",
	Manual:     manual,
	Remedy:     "Ask for no more than the node can give, on a node that resizes pods.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Update},
	Resources:  plugin.On(corev1.Resource("pods"), "resize"),
	Gate:       "InPlacePodVerticalScaling",
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
		return &podResizeValidator{ready.After(nodes.Informer()), nodes.Lister()}, nil
	},
}

type podResizeValidator struct {
	synced ready.Gate
	nodes  corev1listers.NodeLister
}

var _ plugin.Validator = &podResizeValidator{}

// Validate refuses a resize that isn't possible on the pod's node.
func (p *podResizeValidator) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil || pod.Spec.NodeName == "" {
		return err
	}
	old, err := podspec.Pod(name, a.GetOldObject())
	// The generation changes only with the spec.
	if err != nil || old.Generation == pod.Generation {
		return err
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
	if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != string(corev1.Linux) {
		return refused(a, unsupportedPlatform,
			fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os))
	}
	if lacking := insufficient(node.Status.Allocatable, pod); len(lacking) > 0 {
		return refused(a, nodeCapacity,
			fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(lacking, "; ")))
	}
	return nil
}

// insufficient returns the resources of which the pod requests more than is allocatable, in words.
func insufficient(allocatable corev1.ResourceList, pod *corev1.Pod) []string {
	var lacking []string
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	if cpu, has := requests.Cpu(), allocatable.Cpu(); cpu.Cmp(*has) > 0 {
		lacking = append(lacking, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(),
			has.MilliValue()))
	}
	if memory, has := requests.Memory(), allocatable.Memory(); memory.Cmp(*has) > 0 {
		lacking = append(lacking, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), has.Value()))
	}
	return lacking
}

// refused returns the refusal with the cause among its details, by which clients decide what to do.
func refused(a admission.Attributes, cause metav1.CauseType, reason error) error {
	err := admission.NewForbidden(a, reason)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}
