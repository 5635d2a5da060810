// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/remote"
	"gatehouse.dev/webhook/review"
)

// leaveAloneAnnotation asks the controllers of some providers not to rewrite webhook configurations. (AKS adds
// namespaces to exempt.) Otherwise they and a Keeper would rewrite them forever.
const leaveAloneAnnotation = "admissions.enforcer/disabled"

// Mutating returns the configuration of the mutating phase, or nil if no plugin has one. API
// servers verify the serving certificate with caBundle. If it is empty, they use the roots that
// they trust anyway.
func Mutating(o *Options, caBundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metadata(o, plugin.Mutating)}
	for _, call := range Calls(o) {
		if call.Phase != plugin.Mutating {
			continue
		}
		w := webhookOf(o, &call, caBundle)
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{Name: w.Name,
			ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
			MatchConditions:    w.MatchConditions,
			ReinvocationPolicy: new(admissionregistrationv1.IfNeededReinvocationPolicy)})
	}
	if c.Webhooks == nil {
		return nil
	}
	return c
}

// Validating returns the configuration of the validating phase, or nil if no plugin has one.
func Validating(o *Options, caBundle []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metadata(o, plugin.Validating)}
	for _, call := range Calls(o) {
		if call.Phase == plugin.Validating {
			c.Webhooks = append(c.Webhooks, webhookOf(o, &call, caBundle))
		}
	}
	if c.Webhooks == nil {
		return nil
	}
	return c
}

// metadata returns the metadata of the configuration of a phase.
func metadata(o *Options, phase plugin.Phase) metav1.ObjectMeta {
	annotations := map[string]string{leaveAloneAnnotation: "true"}
	if lines := ignored(o, phase); lines != "" {
		annotations[lintAnnotation] = lines
	}
	return metav1.ObjectMeta{Name: o.Name, Labels: o.Installation().Labels(), Annotations: annotations}
}

// webhookOf returns the webhook of a call. It sets the fields that API servers default, so that it
// can be compared with what they store.
func webhookOf(o *Options, call *Call, caBundle []byte) admissionregistrationv1.ValidatingWebhook {
	w := admissionregistrationv1.ValidatingWebhook{
		Name:                    call.Name,
		ClientConfig:            clientConfig(o, call, caBundle),
		Rules:                   remote.Rules(call.Plugins, call.Phase),
		FailurePolicy:           new(call.FailurePolicy),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          new(int32((o.timeout() + time.Second - 1) / time.Second)),
		AdmissionReviewVersions: []string{"v1", "v1beta1"},
	}
	w.MatchConditions = conditions(o, call)
	if exempt := o.exempt(); len(exempt) > 0 {
		w.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: exempt}}
	}
	return w
}

// Audiences returns the audiences of the tokens that API servers may show: the addresses of all calls that
// a replica serves.
func Audiences(o *Options) []string {
	var all []string
	for _, call := range append(Served(o), Call{Path: ProbePath}) {
		all = append(all, review.Audience(clientConfig(o, &call, nil)))
	}
	return all
}

// clientConfig says where API servers call.
func clientConfig(o *Options, call *Call, caBundle []byte) admissionregistrationv1.WebhookClientConfig {
	if o.Service != nil {
		return admissionregistrationv1.WebhookClientConfig{CABundle: caBundle,
			Service: &admissionregistrationv1.ServiceReference{Namespace: o.Service.Namespace,
				Name: o.Service.Name, Port: new(o.port()), Path: new(call.Path)}}
	}
	return admissionregistrationv1.WebhookClientConfig{CABundle: caBundle,
		URL: new(strings.TrimSuffix(o.URL, "/") + call.Path)}
}

// conditions exclude requests that the rules of a call include but its plugins ignore.
func conditions(o *Options, call *Call) []admissionregistrationv1.MatchCondition {
	var all []admissionregistrationv1.MatchCondition
	except := func(name, expression string) {
		all = append(all, admissionregistrationv1.MatchCondition{Name: name, Expression: "!(" + expression + ")"})
	}
	if asksAbout(call, "coordination.k8s.io", "leases") {
		// Controllers elect their leaders with Leases, and nodes renew them to show that they live.
		except("leases", `request.resource.group == "coordination.k8s.io" && request.resource.resource == "leases"`)
	}
	if asksAbout(call, "", "events") && !namesResource(call, "", "events") {
		except("events", `request.resource.group in ["", "events.k8s.io"] && request.resource.resource == "events"`)
	}
	if asksAbout(call, "authorization.k8s.io", "subjectaccessreviews") {
		except("reviews", `request.resource.group in ["authentication.k8s.io", "authorization.k8s.io"]`)
	}
	if o.User != "" && (asksAbout(call, "", "secrets") || asksAbout(call, "", "events") ||
		asksAbout(call, "", "resourcequotas")) {
		except("own-writes", fmt.Sprintf("request.userInfo.username == %s && ("+
			"has(request.namespace) && request.namespace == %q || "+
			`request.resource.group in ["", "events.k8s.io"] && request.resource.resource in `+
			`["events", "resourcequotas"])`, strconv.QuoteToASCII(o.User), o.Namespace))
	}
	return all
}

// asksAbout reports whether any of the plugins is asked about a resource.
func asksAbout(call *Call, group, resource string) bool {
	return namesResource(call, group, resource) ||
		slices.ContainsFunc(call.Plugins, func(p plugin.Descriptor) bool { return len(p.Resources) == 0 })
}

func namesResource(call *Call, group, resource string) bool {
	return slices.ContainsFunc(call.Plugins, func(p plugin.Descriptor) bool {
		return slices.ContainsFunc(p.Resources, func(r plugin.Resource) bool {
			return r.Group == group && r.Resource == resource
		})
	})
}
