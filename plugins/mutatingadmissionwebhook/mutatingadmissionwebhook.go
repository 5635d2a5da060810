// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutatingadmissionwebhook implements the admission plugin MutatingAdmissionWebhook, which
// calls the webhooks of MutatingWebhookConfigurations and changes objects by their answers. Package
// webhook has the implementation.
//
// The plugin is on by default and takes part in the mutating phase only. It runs after the
// compiled-in plugins that change objects, so that webhooks see their changes.
package mutatingadmissionwebhook

import (
	_ "embed"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook"
)

//go:embed README.md
var manual string

// Descriptor describes MutatingAdmissionWebhook. It needs a client, informers, an authorizer and to
// know when the server is done.
//
//schema:configuration webhook.fileFormat WebhookAdmissionConfiguration apiserver.config.k8s.io/v1
//schema:configuration webhook.fileFormat WebhookAdmission apiserver.config.k8s.io/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       "MutatingAdmissionWebhook",
	Summary:    "Has objects changed by the webhooks of MutatingWebhookConfigurations",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: plugin.EveryOperation,
	Default:    true,
	Server: plugin.Server{
		Only: "the API server itself asks the webhooks",
		Needs: []schema.GroupVersionResource{
			admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"),
		},
		Enforces: []plugin.Enforced{{Resource: admissionregistrationv1.Resource("mutatingwebhookconfigurations")}},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		plugin, err := webhook.NewMutating(config, env)
		if err != nil {
			return nil, err
		}
		return plugin, nil
	},
}
