// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package securitycontextdeny implements the admission plugin SecurityContextDeny, which refuses
// pods that choose their own user, groups or SELinux label. Kubernetes had it until 1.30; Pod
// Security Admission took its place.
//
// It refuses the fields supplementalGroups, seLinuxOptions, runAsUser and fsGroup of the pod's
// security context, and seLinuxOptions and runAsUser of any container's, whatever their values.
// None of these fields can change in a stored pod, so an update is refused only for the ephemeral
// containers that it adds.
package securitycontextdeny

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
)

const name = "SecurityContextDeny"

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes SecurityContextDeny. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses pods that choose their own user, groups or SELinux label",
	Manual:     manual,
	Remedy:     "Leave out the fields of the security context that the message names.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods, "", "ephemeralcontainers"),
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return securityContextDeny{}, nil
	},
}

type securityContextDeny struct{}

var _ plugin.Validator = securityContextDeny{}

// Validate refuses a pod, and names all fields that it may not set.
func (securityContextDeny) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	refused := forbidden(&pod.Spec)
	if len(refused) > 0 && a.GetOperation() == admission.Update {
		stored, err := podspec.Pod(name, a.GetOldObject())
		if err != nil {
			return err
		}
		already := sets.New(forbidden(&stored.Spec)...)
		refused = slices.DeleteFunc(refused, already.Has)
	}
	switch text := strings.Join(refused, " is forbidden, ") + " is forbidden"; len(refused) {
	case 0:
		return nil
	case 1:
		return admission.NewForbidden(a, errors.New(text))
	default:
		return admission.NewForbidden(a, errors.New("["+text+"]"))
	}
}

// forbidden returns the paths of the fields that the pod sets and may not set.
func forbidden(spec *corev1.PodSpec) []string {
	var paths []string
	if c := spec.SecurityContext; c != nil {
		for _, option := range []struct {
			name string
			set  bool
		}{
			{"supplementalGroups", c.SupplementalGroups != nil},
			{"seLinuxOptions", c.SELinuxOptions != nil},
			{"runAsUser", c.RunAsUser != nil},
			{"fsGroup", c.FSGroup != nil},
		} {
			if option.set {
				paths = append(paths, field.NewPath("spec", "securityContext", option.name).String())
			}
		}
	}
	for position, container := range podspec.All(spec) {
		c := container.SecurityContext
		if c == nil {
			continue
		}
		if c.SELinuxOptions != nil {
			paths = append(paths, position.Path().Child("securityContext", "seLinuxOptions").String())
		}
		if c.RunAsUser != nil {
			paths = append(paths, position.Path().Child("securityContext", "runAsUser").String())
		}
	}
	return paths
}
