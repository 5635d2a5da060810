// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configuredObject is a webhook or a policy that the server has. The list also shows those that never
// did anything, which decisions can't show.
type configuredObject struct {
	Kind          string `json:"kind"` // Webhook or Policy, as a Call's
	Name          string `json:"name"`
	Configuration string `json:"configuration,omitempty"`
	Mutating      bool   `json:"mutating,omitempty"`
	FailurePolicy string `json:"failurePolicy,omitempty"`
	// Bindings is the number of a policy's bindings, or nil if it isn't known. Without a binding a
	// policy is never evaluated.
	Bindings *int `json:"bindings,omitempty"`
}

// configuration lists all that is set up, and what of it can't be listed.
type configuration struct {
	Items   []configuredObject `json:"items"`
	Missing []string           `json:"missing,omitempty"`
	// NotCalled are the backends of webhooks that the server doesn't call, as they don't answer.
	// It is as the server says it.
	NotCalled json.RawMessage `json:"notCalled,omitempty"`
}

const (
	configuredTimeout = 10 * time.Second
	// maxConfigured bounds each list. A cut list says so.
	maxConfigured = 2000
)

// serveConfigured answers with the webhooks and policies of the server, as far as the user may list
// them.
func (d *Dashboard) serveConfigured(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), configuredTimeout)
	defer cancel()
	api := d.client.AdmissionregistrationV1()
	options := metav1.ListOptions{Limit: maxConfigured}
	found := configuration{Items: []configuredObject{}}
	problem := func(what string, list metav1.ListInterface, err error) bool {
		if err == nil && list.GetContinue() != "" {
			found.Missing = append(found.Missing, fmt.Sprintf("%s: only %d of them are listed", what, maxConfigured))
		}
		switch {
		case err == nil:
			return false
		case apierrors.IsNotFound(err): // of an API that the server hasn't got there is nothing
		case apierrors.IsForbidden(err):
			found.Missing = append(found.Missing, what+": you may not list them")
		default:
			found.Missing = append(found.Missing, fmt.Sprintf("%s: %v", what, err))
		}
		return true
	}
	mutating, err := api.MutatingWebhookConfigurations().List(ctx, options)
	if !problem("MutatingWebhookConfigurations", mutating, err) {
		for _, c := range mutating.Items {
			for _, webhook := range c.Webhooks {
				found.add(configuredObject{Kind: "Webhook", Name: webhook.Name, Configuration: c.Name, Mutating: true},
					webhook.FailurePolicy)
			}
		}
	}
	validating, err := api.ValidatingWebhookConfigurations().List(ctx, options)
	if !problem("ValidatingWebhookConfigurations", validating, err) {
		for _, c := range validating.Items {
			for _, webhook := range c.Webhooks {
				found.add(configuredObject{Kind: "Webhook", Name: webhook.Name, Configuration: c.Name}, webhook.FailurePolicy)
			}
		}
	}
	var bindings bindingCounts
	validatingBindings, err := api.ValidatingAdmissionPolicyBindings().List(ctx, options)
	if !problem("ValidatingAdmissionPolicyBindings", validatingBindings, err) {
		bindings = bindingCounts{}
		for _, b := range validatingBindings.Items {
			bindings[b.Spec.PolicyName]++
		}
	}
	policies, err := api.ValidatingAdmissionPolicies().List(ctx, options)
	if !problem("ValidatingAdmissionPolicies", policies, err) {
		for _, p := range policies.Items {
			found.add(configuredObject{Kind: "Policy", Name: p.Name, Bindings: bindings.count(p.Name)}, p.Spec.FailurePolicy)
		}
	}
	bindings = nil
	mutatingBindings, err := api.MutatingAdmissionPolicyBindings().List(ctx, options)
	if !problem("MutatingAdmissionPolicyBindings", mutatingBindings, err) {
		bindings = bindingCounts{}
		for _, b := range mutatingBindings.Items {
			bindings[b.Spec.PolicyName]++
		}
	}
	mutatingPolicies, err := api.MutatingAdmissionPolicies().List(ctx, options)
	if !problem("MutatingAdmissionPolicies", mutatingPolicies, err) {
		for _, p := range mutatingPolicies.Items {
			found.add(configuredObject{Kind: "Policy", Name: p.Name, Mutating: true, Bindings: bindings.count(p.Name)},
				p.Spec.FailurePolicy)
		}
	}
	if err := d.readNotCalled(ctx, &found); apierrors.IsForbidden(err) {
		found.Missing = append(found.Missing, "webhooks' backends that aren't called: you may not read "+notCalledPath)
	} else if err != nil && !apierrors.IsNotFound(err) { // only some servers keep calls from backends
		found.Missing = append(found.Missing, fmt.Sprintf("webhooks' backends that aren't called: %v", err))
	}
	respond(w, found)
}

// notCalledPath is where the server says which backends it doesn't call.
const notCalledPath = "/debug/webhooks"

func (d *Dashboard) readNotCalled(ctx context.Context, into *configuration) error {
	text, err := d.client.Discovery().RESTClient().Get().AbsPath(notCalledPath).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &struct {
		NotCalled *json.RawMessage `json:"notCalled"`
	}{&into.NotCalled})
}

// bindingCounts counts bindings by the policy that they name. It is nil if they aren't known.
type bindingCounts map[string]int

func (b bindingCounts) count(policy string) *int {
	if b == nil {
		return nil
	}
	count := b[policy]
	return &count
}

func (c *configuration) add(s configuredObject, failurePolicy *admissionv1.FailurePolicyType) {
	s.FailurePolicy = string(admissionv1.Fail)
	if failurePolicy != nil {
		s.FailurePolicy = string(*failurePolicy)
	}
	c.Items = append(c.Items, s)
}
