// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a configuration, a policy or a binding.
type Object interface {
	runtime.Object
	metav1.Object
}

// A Plugin is an admission plugin that reads manifests of certain kinds.
type Plugin struct{ kinds []string }

// The plugins.
var (
	MutatingWebhooks   = &Plugin{[]string{"MutatingWebhookConfiguration"}}
	ValidatingWebhooks = &Plugin{[]string{"ValidatingWebhookConfiguration"}}
	MutatingPolicies   = &Plugin{[]string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}}
	ValidatingPolicies = &Plugin{[]string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}}
)

// name returns the plugin's name: the kind of its policies, or the kind of its webhook
// configurations with AdmissionWebhook instead of WebhookConfiguration.
func (p *Plugin) name() string {
	return strings.Replace(p.kinds[0], "WebhookConfiguration", "AdmissionWebhook", 1)
}

// hasKind reports whether the plugin reads manifests of the kind.
func (p *Plugin) hasKind(kind string) bool { return slices.Contains(p.kinds, kind) }

// String returns the kinds of the plugin's manifests, for messages.
func (p *Plugin) String() string { return strings.Join(p.kinds, " and ") }

// KindOf returns the kind of an object.
func KindOf(object Object) string {
	switch object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return "MutatingWebhookConfiguration"
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return "ValidatingWebhookConfiguration"
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return "MutatingAdmissionPolicy"
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return "MutatingAdmissionPolicyBinding"
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return "ValidatingAdmissionPolicy"
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return "ValidatingAdmissionPolicyBinding"
	}
	return ""
}
