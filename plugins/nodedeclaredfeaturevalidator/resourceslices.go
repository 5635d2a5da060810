// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedeclaredfeaturevalidator

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/dranodeallocatableresources"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// needed is the feature of nodes that have devices with node-allocatable resources.
const needed = dranodeallocatableresources.DRANodeAllocatableResourcesFeature

// place says which nodes a device is for. At most one of the fields is set.
type place struct {
	node     string
	selector *corev1.NodeSelector
	all      bool
}

// device is a device of a ResourceSlice that has node-allocatable resources.
type device struct {
	name string
	place
}

// validateSlice refuses a ResourceSlice that has a device with node-allocatable resources for a node
// which doesn't declare the feature.
func (p *nodeDeclaredFeatureValidator) validateSlice(ctx context.Context, a admission.Attributes) error {
	devices, ok := devicesOf(a.GetObject())
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for resourceslices is a %T", name,
			a.GetObject()))
	}
	if len(devices) == 0 {
		return nil
	}
	if err := p.synced.Wait(ctx, a); err != nil {
		return err
	}
	for _, d := range devices {
		nodes, err := p.nodesFor(a, d)
		if err != nil {
			return err
		}
		first := "" // by name, as the cache has no order
		for _, node := range nodes {
			if !slices.Contains(node.Status.DeclaredFeatures, needed) && (first == "" || node.Name < first) {
				first = node.Name
			}
		}
		if first != "" {
			return admission.NewForbidden(a, fmt.Errorf("node %q does not support %s feature", first, needed))
		}
	}
	return nil
}

// nodesFor returns the nodes that a device is for.
func (p *nodeDeclaredFeatureValidator) nodesFor(a admission.Attributes, d device) ([]*corev1.Node, error) {
	switch {
	case d.node != "":
		node, err := p.nodes.Get(d.node)
		if apierrors.IsNotFound(err) {
			return nil, admission.NewForbidden(a, fmt.Errorf("node %q not found for device %q", d.node, d.name))
		}
		if err != nil {
			return nil, admission.NewForbidden(a, fmt.Errorf("failed to get node %q for device %q: %w", d.node, d.name, err))
		}
		return []*corev1.Node{node}, nil
	case d.selector == nil && !d.all:
		return nil, admission.NewForbidden(a,
			fmt.Errorf("device %q in ResourceSlice has NodeAllocatableResources but does not map to any nodes", d.name))
	}
	nodes, err := p.nodes.List(labels.Everything())
	if err != nil {
		return nil, admission.NewForbidden(a, fmt.Errorf("failed to list nodes for device %q: %w", d.name, err))
	}
	if d.selector != nil {
		selector, err := nodeaffinity.NewNodeSelector(d.selector)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("failed to create node selector: %v", err))
		}
		nodes = slices.DeleteFunc(nodes, func(node *corev1.Node) bool { return !selector.Match(node) })
	}
	return nodes, nil
}

// devicesOf returns the devices of a ResourceSlice that have node-allocatable resources. ok is false for
// other objects. The object has the version of the request.
func devicesOf(object runtime.Object) (devices []device, ok bool) {
	// All devices of a slice are for the same nodes, unless it says that each has its own.
	add := func(name string, resources int, each *bool, own, shared place) {
		if resources == 0 {
			return
		}
		if ptr.Deref(each, false) {
			shared = own
		}
		devices = append(devices, device{name, shared})
	}
	switch slice := object.(type) {
	case *resourcev1.ResourceSlice:
		s := &slice.Spec
		for _, d := range s.Devices {
			add(d.Name, len(d.NodeAllocatableResources), s.PerDeviceNodeSelection,
				placeOf(d.NodeName, d.NodeSelector, d.AllNodes), placeOf(s.NodeName, s.NodeSelector, s.AllNodes))
		}
	case *resourcev1beta2.ResourceSlice:
		s := &slice.Spec
		for _, d := range s.Devices {
			add(d.Name, len(d.NodeAllocatableResources), s.PerDeviceNodeSelection,
				placeOf(d.NodeName, d.NodeSelector, d.AllNodes), placeOf(s.NodeName, s.NodeSelector, s.AllNodes))
		}
	case *resourcev1beta1.ResourceSlice:
		s := &slice.Spec
		for _, d := range s.Devices {
			if b := d.Basic; b != nil {
				add(d.Name, len(b.NodeAllocatableResources), s.PerDeviceNodeSelection,
					placeOf(b.NodeName, b.NodeSelector, b.AllNodes), placeOf(&s.NodeName, s.NodeSelector, &s.AllNodes))
			}
		}
	default:
		return nil, false
	}
	return devices, true
}

// placeOf returns what the fields say of which at most one should be set.
func placeOf(node *string, selector *corev1.NodeSelector, all *bool) place {
	switch {
	case ptr.Deref(node, "") != "":
		return place{node: *node}
	case selector != nil:
		return place{selector: selector}
	}
	return place{all: ptr.Deref(all, false)}
}
