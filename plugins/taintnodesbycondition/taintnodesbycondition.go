// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taintnodesbycondition implements the admission plugin TaintNodesByCondition, which gives
// a new Node the taint node.kubernetes.io/not-ready:NoSchedule, unless it has it already.
//
// Kubernetes' node lifecycle controller keeps that taint on nodes that are not ready, and takes it
// off when they are. But the controller sees a node only after it is stored. With the taint there
// from the start, the scheduler can't put pods on the node in between.
package taintnodesbycondition

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

const name = "TaintNodesByCondition"

var (
	nodes = corev1.Resource("nodes")

	notReady = corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
)

//go:embed README.md
var manual string

// Descriptor describes TaintNodesByCondition. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Taints new nodes as not ready, so that nothing is scheduled there before they are",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(nodes),
	Default:    true,
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return taintNodesByCondition{}, nil
	},
}

type taintNodesByCondition struct{}

var _ plugin.Mutator = taintNodesByCondition{}

// Admit taints a node.
func (taintNodesByCondition) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	node, ok := a.GetObject().(*corev1.Node)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for nodes is a %T", name,
			a.GetObject()))
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&notReady) {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, notReady)
	return nil
}
