package matching

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Target is what rules look at in a request.
type Target struct {
	Operation   admission.Operation
	Resource    schema.GroupVersionResource
	Subresource string
	// Namespaced says that the request is one in a namespace or, which the API server doesn't tell
	// apart, for a Namespace.
	Namespaced bool

	// configuration says that the request's kind is a webhook configuration's, a policy's or a
	// binding's.
	configuration bool
}

// TargetOf is the target of a request.
func TargetOf(a admission.Attributes) Target {
	return Target{
		Operation:     a.GetOperation(),
		Resource:      a.GetResource(),
		Subresource:   a.GetSubresource(),
		Namespaced:    a.GetNamespace() != "",
		configuration: isConfiguration(a.GetKind()),
	}
}

// IsConfiguration tells whether the request is for a webhook configuration, a policy or a binding.
// Webhooks must not be asked about these, lest one of them could make itself irremovable. Those
// from files may: who writes files can remove them.
//
// Source: IsExemptAdmissionConfigurationResource in
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
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

// IsPolicy tells whether the request is for a policy or a binding, of either sort. For the same
// reason these aren't subject to policies but those from files. Webhook configurations are.
//
// Source: admissionResources in k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go.
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

// IsReview tells whether the request asks who somebody is or what somebody may do. No policy is
// evaluated on these, not even one from a file: it could break the cluster.
//
// Source: excluded in k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion.
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
