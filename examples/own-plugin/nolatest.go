// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
)

const name = "NoLatest"

// manual is the plugin's page, which `explain NoLatest` prints.
//
//go:embed nolatest.md
var manual string

// NoLatest refuses pods whose images can change under them. It checks all of a pod's containers,
// including those that are added to a running pod for debugging.
var NoLatest = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses pods with an image that has no tag, or the tag latest",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(corev1.Resource("pods"), "", "ephemeralcontainers"),
	Default:    true,
	Remedy:     "Give each image a tag that stays what it is, such as nginx:1.29, or a digest.",
	Manual:     manual,
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return noLatest{}, nil
	},
}

type noLatest struct{}

// Validate implements plugin.Validator.
func (noLatest) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	for position, container := range podspec.All(&pod.Spec) {
		image := container.Image[strings.LastIndex(container.Image, "/")+1:]
		if !strings.Contains(image, ":") || strings.HasSuffix(image, ":latest") {
			return admission.NewForbidden(a,
				fmt.Errorf("%s: %q may change: name a version", position.Path().Child("image"), container.Image))
		}
	}
	return nil
}
