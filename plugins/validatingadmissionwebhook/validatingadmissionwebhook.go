// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validatingadmissionwebhook implements the admission plugin ValidatingAdmissionWebhook,
// which asks the webhooks of ValidatingWebhookConfigurations whether to admit a request. Package
// webhook has the implementation.
//
// The plugin is on by default and takes part in the validating phase only. It runs after the
// compiled-in plugins that can refuse at less cost, and before ResourceQuota, which charges only
// for what all others have admitted.
package validatingadmissionwebhook

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

// Descriptor describes ValidatingAdmissionWebhook. It needs a client, informers, an authorizer and
// to know when the server is done.
//
//schema:configuration webhook.fileFormat WebhookAdmissionConfiguration apiserver.config.k8s.io/v1
//schema:configuration webhook.fileFormat WebhookAdmission apiserver.config.k8s.io/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       "ValidatingAdmissionWebhook",
	Summary:    "Has requests judged by the webhooks of ValidatingWebhookConfigurations",
	Manual:     manual,
	Phases:     plugin.Validating,
	Operations: plugin.EveryOperation,
	Default:    true,
	Server: plugin.Server{
		Only: "the API server itself asks the webhooks",
		Needs: []schema.GroupVersionResource{
			admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"),
		},
		Enforces: []plugin.Enforced{{Resource: admissionregistrationv1.Resource("validatingwebhookconfigurations")}},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		plugin, err := webhook.NewValidating(config, env)
		if err != nil {
			return nil, err
		}
		return plugin, nil
	},
}
