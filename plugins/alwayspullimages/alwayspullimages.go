// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alwayspullimages implements the admission plugin AlwaysPullImages, which sets the pull
// policy of all containers and image volumes of a pod to Always. Otherwise a node would start a
// private image that it already has for every user who knows the image's name; with Always it asks
// the registry each time, with the pod's own credentials.
//
// The mutating phase sets the policy. The validating phase refuses a pod whose policy is another
// one by then, for example because of a webhook. An update of a pod without a new image is left
// alone, and an update of ephemeral containers concerns the added ones only.
package alwayspullimages

import (
	"context"
	_ "embed"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/aggregate"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
)

const name = "AlwaysPullImages"

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes AlwaysPullImages. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Makes nodes pull the images of every pod anew, with the pod's own credentials",
	Manual:     manual,
	Remedy:     "Set imagePullPolicy to Always for the containers that the message names.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods, "", "ephemeralcontainers"),
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return alwaysPullImages{}, nil
	},
}

type alwaysPullImages struct{}

var (
	_ plugin.Mutator   = alwaysPullImages{}
	_ plugin.Validator = alwaysPullImages{}
)

// Admit sets the pull policy.
func (alwaysPullImages) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return eachPolicy(a, func(policy *corev1.PullPolicy, _ place) { *policy = corev1.PullAlways })
}

// Validate refuses a pod with other pull policies, and names all of them.
func (alwaysPullImages) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	var others []error
	err := eachPolicy(a, func(policy *corev1.PullPolicy, at place) {
		if *policy != corev1.PullAlways {
			others = append(others, field.NotSupported(at.path(), *policy, []corev1.PullPolicy{corev1.PullAlways}))
		}
	})
	if err != nil {
		return err
	}
	if err := aggregate.New(others); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// place holds the position of a pull policy: in a container, or in one of the pod's volumes.
type place podspec.Position

const volumes = "volumes"

func (p place) path() *field.Path {
	path := podspec.Position(p).Path()
	if p.List == volumes {
		return path.Child("image", "pullPolicy")
	}
	return path.Child("imagePullPolicy")
}

// eachPolicy visits the pull policies that the request concerns.
func eachPolicy(a admission.Attributes, visit func(*corev1.PullPolicy, place)) error {
	onlyEphemeral := a.GetSubresource() == "ephemeralcontainers"
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Update {
		stored, err := podspec.Pod(name, a.GetOldObject())
		if err != nil {
			return err
		}
		if onlyEphemeral {
			eachAdded(pod, stored, visit)
			return nil
		}
		if !bringsImage(pod, stored) {
			return nil
		}
	}
	for position, container := range podspec.All(&pod.Spec) {
		visit(&container.ImagePullPolicy, place(position))
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			visit(&image.PullPolicy, place{volumes, i})
		}
	}
	return nil
}

// eachAdded visits the pull policies of the ephemeral containers that the stored pod doesn't have.
func eachAdded(pod, stored *corev1.Pod, visit func(*corev1.PullPolicy, place)) {
	known := sets.New[string]()
	for i := range stored.Spec.EphemeralContainers {
		known.Insert(stored.Spec.EphemeralContainers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		if container := &pod.Spec.EphemeralContainers[i]; !known.Has(container.Name) {
			visit(&container.ImagePullPolicy, place{podspec.EphemeralContainers, i})
		}
	}
}

// bringsImage reports whether a container has an image that no container of the stored pod has.
func bringsImage(pod, stored *corev1.Pod) bool {
	known := sets.New[string]()
	for _, container := range podspec.All(&stored.Spec) {
		known.Insert(container.Image)
	}
	for _, container := range podspec.All(&pod.Spec) {
		if !known.Has(container.Image) {
			return true
		}
	}
	return false
}
