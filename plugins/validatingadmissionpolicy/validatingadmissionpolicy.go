// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validatingadmissionpolicy implements the admission plugin ValidatingAdmissionPolicy,
// which refuses requests by the ValidatingAdmissionPolicies that are bound. Package internal/policy
// has the implementation.
//
// The plugin is on by default and takes part in the validating phase only. It runs before
// ValidatingAdmissionWebhook, since an expression costs less than a call.
package validatingadmissionpolicy

import (
	_ "embed"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/policy"
	"gatehouse.dev/plugin"
)

var (
	policies = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
	bindings = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")
)

//go:embed README.md
var manual string

// Descriptor describes ValidatingAdmissionPolicy. It needs clients, informers, an authorizer, a
// REST mapper and to know when the server is done.
//
//schema:configuration internal/policy.fileFormat ValidatingAdmissionPolicyConfiguration apiserver.config.k8s.io/v1
var Descriptor = plugin.Descriptor{
	Name:       "ValidatingAdmissionPolicy",
	Summary:    "Has requests judged by the expressions of ValidatingAdmissionPolicies",
	Manual:     manual,
	Phases:     plugin.Validating,
	Operations: plugin.EveryOperation,
	Default:    true,
	Server: plugin.Server{
		Only:     "the API server itself enforces its policies",
		Needs:    []schema.GroupVersionResource{policies, bindings},
		Enforces: []plugin.Enforced{{Resource: policies.GroupResource()}, {Resource: bindings.GroupResource()}},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		plugin, err := policy.NewValidating(config, env)
		if err != nil {
			return nil, err
		}
		return plugin, nil
	},
}
