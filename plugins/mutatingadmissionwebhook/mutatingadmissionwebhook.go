// Package mutatingadmissionwebhook is the plugin MutatingAdmissionWebhook: it has objects changed
// by the webhooks that MutatingWebhookConfigurations name.
//
// All of it is in package webhook, which tells how. What is said here is what makes it a plugin: it
// is on by default, takes part in the mutating phase only, and stands behind the compiled-in
// plugins that change objects, whose changes webhooks are to see.
package mutatingadmissionwebhook

import (
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/webhook"
)

// Descriptor is MutatingAdmissionWebhook, not yet built. It needs a client, informers, an
// authorizer and to know when the server is done.
var Descriptor = chain.Descriptor{
	Name:       "MutatingAdmissionWebhook",
	Summary:    "Has objects changed by the webhooks of MutatingWebhookConfigurations",
	Phases:     chain.Mutating,
	Operations: chain.EveryOperation,
	Outside:    "the API server itself asks the webhooks",
	Default:    true,
	Needs: []schema.GroupVersionResource{
		admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"),
	},
	Enforces: []chain.Enforced{{Resource: admissionregistrationv1.Resource("mutatingwebhookconfigurations")}},
	New: func(config io.Reader, env *chain.Env) (admission.Interface, error) {
		plugin, err := webhook.NewMutating(config, env)
		if err != nil {
			return nil, err
		}
		return plugin, nil
	},
}
