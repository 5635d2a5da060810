// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storageobjectinuseprotection implements the admission plugin
// StorageObjectInUseProtection, which keeps storage objects from being removed while they are in
// use.
//
// It adds a finalizer to each new claim, volume and volume attributes class. A deletion then only
// marks the object. One of three controllers of Kubernetes takes the finalizer off when nothing
// uses the object any more. The controllers define when an object is in use; the manual page
// describes it.
package storageobjectinuseprotection

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

const name = "StorageObjectInUseProtection"

var (
	claims  = corev1.Resource("persistentvolumeclaims")
	volumes = corev1.Resource("persistentvolumes")
	classes = storagev1.Resource("volumeattributesclasses")
)

// finalizers holds the finalizers of new objects, by their resource. The controllers use the same
// names: k8s.io/kubernetes/pkg/volume/util/finalizer.go.
var finalizers = map[schema.GroupResource]string{
	claims:  "kubernetes.io/pvc-protection",
	volumes: "kubernetes.io/pv-protection",
	classes: "kubernetes.io/vac-protection",
}

//go:embed README.md
var manual string

// Descriptor describes StorageObjectInUseProtection. It needs nothing and takes no configuration.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives claims and volumes a finalizer that keeps them as long as they are in use",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  slices.Concat(plugin.On(claims), plugin.On(volumes), plugin.On(classes)),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.AskGates},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		// A server that emulates a version before 1.34 has no controller for the classes.
		return &storageObjectInUseProtection{!env.Disabled("VolumeAttributesClass")}, nil
	},
}

type storageObjectInUseProtection struct {
	classes bool // whether volume attributes classes get a finalizer
}

var _ plugin.Mutator = &storageObjectInUseProtection{}

// Admit gives a new object its finalizer.
func (p *storageObjectInUseProtection) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if resource == classes && !p.classes {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for %s is a %T", name,
			a.GetResource().Resource, a.GetObject()))
	}
	finalizer := finalizers[resource]
	if set := object.GetFinalizers(); !slices.Contains(set, finalizer) {
		object.SetFinalizers(append(set, finalizer))
	}
	return nil
}
