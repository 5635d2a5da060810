// Package mutatingadmissionwebhook is the plugin MutatingAdmissionWebhook: it has objects changed
// by the webhooks that MutatingWebhookConfigurations name.
//
// Package webhook has the implementation and describes it. The plugin is on by default, takes part
// in the mutating phase only, and runs after the compiled-in plugins that change objects, so that
// webhooks see their changes.
package mutatingadmissionwebhook

import (
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook"
)

// Descriptor is MutatingAdmissionWebhook, not yet built. It needs a client, informers, an
// authorizer and to know when the server is done.
var Descriptor = plugin.Descriptor{
	Name:       "MutatingAdmissionWebhook",
	Summary:    "Has objects changed by the webhooks of MutatingWebhookConfigurations",
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
