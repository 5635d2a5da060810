// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package denyserviceexternalips implements the admission plugin DenyServiceExternalIPs, which
// refuses external IPs that a Service doesn't have already.
//
// A user who may write Services can name any address in spec.externalIPs. Every node then sends
// traffic for the address to the Service, even if it is meant for another machine. Existing
// addresses may stay or be removed, so that Services can be updated. Services of type LoadBalancer
// get their addresses elsewhere.
package denyserviceexternalips

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugins/internal/objects"
)

const name = "DenyServiceExternalIPs"

// errDenied has Kubernetes' words.
var errDenied = errors.New("Use of external IPs is denied by admission control")

//go:embed README.md
var manual string

// Descriptor describes DenyServiceExternalIPs. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses new external IPs of Services",
	Manual:     manual,
	Remedy:     "Leave spec.externalIPs as it was, or shorten it; another type of Service may do what it is to do.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(corev1.Resource("services")),
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return &denyServiceExternalIPs{}, nil
	},
}

type denyServiceExternalIPs struct{}

var _ plugin.Validator = &denyServiceExternalIPs{}

// Validate refuses a Service with an external IP that it didn't have.
func (*denyServiceExternalIPs) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	service, err := objects.As[*corev1.Service](name, a, a.GetObject())
	if err != nil || len(service.Spec.ExternalIPs) == 0 {
		return err
	}
	had := map[string]bool{}
	if old := a.GetOldObject(); old != nil {
		stored, err := objects.As[*corev1.Service](name, a, old)
		if err != nil {
			return err
		}
		for _, ip := range stored.Spec.ExternalIPs {
			had[ip] = true
		}
	}
	if slices.ContainsFunc(service.Spec.ExternalIPs, func(ip string) bool { return !had[ip] }) {
		return admission.NewForbidden(a, errDenied)
	}
	return nil
}
