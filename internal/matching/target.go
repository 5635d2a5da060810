// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Target is the part of a request that rules depend on.
type Target struct {
	Operation   admission.Operation
	Resource    schema.GroupVersionResource
	Subresource string
	// Namespaced reports whether the request is in a namespace or for a Namespace. The API server
	// doesn't distinguish the two.
	Namespaced bool

	// configuration reports whether the request's kind is a webhook configuration, a policy or a
	// binding.
	configuration bool
}

// TargetOf returns the target of a request.
func TargetOf(a admission.Attributes) Target {
	return Target{
		Operation:     a.GetOperation(),
		Resource:      a.GetResource(),
		Subresource:   a.GetSubresource(),
		Namespaced:    a.GetNamespace() != "",
		configuration: isConfiguration(a.GetKind()),
	}
}

// IsConfiguration reports whether the request is for a webhook configuration, a policy or a
// binding. Webhooks of the API are not called for these, so that no webhook can prevent its own
// removal. Webhooks from files may be: an administrator can remove the file.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules#IsExemptAdmissionConfigurationResource 69e05929
func (t Target) IsConfiguration() bool { return t.configuration }

func isConfiguration(kind schema.GroupVersionKind) bool {
	if kind.Group != admissionregistrationv1.GroupName {
		return false
	}
	switch kind.Kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return true
	}
	return false
}

// IsPolicy reports whether the request is for a policy or a binding, of either kind. For the same
// reason only policies from files are evaluated on these. Policies of the API are evaluated on
// webhook configurations.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go#admissionResources 63dd81d2
func (t Target) IsPolicy() bool {
	if t.Resource.Group != admissionregistrationv1.GroupName {
		return false
	}
	switch t.Resource.Resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		return true
	}
	return false
}

// IsReview reports whether the request asks for an identity or for rights. No policy is evaluated
// on these, not even one from a file: it could break the cluster. For that reason no webhook is
// asked about them either, unless the feature gate for that is off.
//
// Source: k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion#excluded 475268c3
func (t Target) IsReview() bool {
	switch t.Resource.Group {
	case "authentication.k8s.io":
		switch t.Resource.Resource {
		case "selfsubjectreviews", "tokenreviews":
			return true
		}
	case "authorization.k8s.io":
		switch t.Resource.Resource {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews",
			"subjectaccessreviews":
			return true
		}
	}
	return false
}
