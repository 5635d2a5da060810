// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutatingadmissionpolicy implements the admission plugin MutatingAdmissionPolicy, which
// changes objects by the expressions of MutatingAdmissionPolicies. Package internal/policy has the
// implementation.
//
// The plugin is on by default and takes part in the mutating phase only. It runs before
// MutatingAdmissionWebhook, so that webhooks see the changes of policies.
package mutatingadmissionpolicy

import (
	_ "embed"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/policy"
	"gatehouse.dev/plugin"
)

var (
	policies = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies")
	bindings = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicybindings")
)

//go:embed README.md
var manual string

// Descriptor describes MutatingAdmissionPolicy. It needs clients, informers, an authorizer, a REST
// mapper and to know when the server is done.
//
//schema:configuration internal/policy.fileFormat MutatingAdmissionPolicyConfiguration apiserver.config.k8s.io/v1
var Descriptor = plugin.Descriptor{
	Name:       "MutatingAdmissionPolicy",
	Summary:    "Has objects changed by the expressions of MutatingAdmissionPolicies",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create, admission.Update, admission.Connect},
	Default:    true,
	Gate:       "MutatingAdmissionPolicy", // on since 1.36: no v1 of its kinds is served by servers that emulate others
	Server: plugin.Server{
		Only:     "the API server itself enforces its policies",
		Needs:    []schema.GroupVersionResource{policies, bindings},
		Enforces: []plugin.Enforced{{Resource: policies.GroupResource()}, {Resource: bindings.GroupResource()}},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		plugin, err := policy.NewMutating(config, env)
		if err != nil {
			return nil, err
		}
		return plugin, nil
	},
}
