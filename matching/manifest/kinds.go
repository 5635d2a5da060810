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

// A Plugin is an admission plugin that has manifests, and what they hold.
type Plugin struct {
	name  string
	kinds []string
}

// The plugins.
var (
	MutatingWebhooks   = &Plugin{"MutatingAdmissionWebhook", []string{"MutatingWebhookConfiguration"}}
	ValidatingWebhooks = &Plugin{"ValidatingAdmissionWebhook", []string{"ValidatingWebhookConfiguration"}}
	MutatingPolicies   = &Plugin{"MutatingAdmissionPolicy",
		[]string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}}
	ValidatingPolicies = &Plugin{"ValidatingAdmissionPolicy",
		[]string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}}
)

// has tells whether the plugin's manifests hold objects of the kind.
func (p *Plugin) has(kind string) bool { return slices.Contains(p.kinds, kind) }

// String is what its manifests hold, in words.
func (p *Plugin) String() string { return strings.Join(p.kinds, " and ") }

// kindOf is the kind of an object.
func kindOf(object Object) string {
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
