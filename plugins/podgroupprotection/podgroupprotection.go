// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroupprotection implements the admission plugin PodGroupProtection, which keeps a
// PodGroup as long as pods are in it.
//
// Every new PodGroup gets the finalizer scheduling.k8s.io/podgroup-protection. A deletion then only
// marks the PodGroup. The controller podgroup-protection-controller takes the finalizer off when no
// pod that names the PodGroup is left, or all of them have ended. The plugin does nothing if the
// feature gate GenericWorkload is off.
package podgroupprotection

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

const (
	name = "PodGroupProtection"
	// finalizer is the name that the controller uses, too: k8s.io/kubernetes/pkg/apis/scheduling.
	finalizer = schedulingv1.GroupName + "/podgroup-protection"
)

//go:embed README.md
var manual string

// Descriptor describes PodGroupProtection. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives PodGroups a finalizer that keeps them as long as pods are in them",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(schedulingv1.Resource("podgroups")),
	Gate:       "GenericWorkload",
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.AskGates},
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return &podGroupProtection{}, nil
	},
}

type podGroupProtection struct{}

var _ plugin.Mutator = &podGroupProtection{}

// Admit gives a new PodGroup its finalizer.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/scheduling/podgroupprotection#podGroupProtectionPlugin.Admit 2523eb4a
func (*podGroupProtection) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	group, err := meta.Accessor(a.GetObject()) // of whatever version
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for podgroups is a %T", name,
			a.GetObject()))
	}
	if finalizers := group.GetFinalizers(); !slices.Contains(finalizers, finalizer) {
		group.SetFinalizers(append(finalizers, finalizer))
	}
	return nil
}
