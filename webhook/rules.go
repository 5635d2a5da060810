package webhook

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// target is what rules look at of a request.
type target struct {
	operation   admission.Operation
	resource    schema.GroupVersionResource
	subresource string
	// namespaced says that the request is one in a namespace or, which the API server doesn't tell
	// apart, for a Namespace.
	namespaced bool
	// configuration says that the request is for a webhook configuration or an admission policy.
	configuration bool
}

func targetOf(a admission.Attributes) target {
	return target{
		operation:     a.GetOperation(),
		resource:      a.GetResource(),
		subresource:   a.GetSubresource(),
		namespaced:    a.GetNamespace() != "",
		configuration: isConfiguration(a.GetKind()),
	}
}

// isConfiguration tells whether webhooks must not be asked about objects of the kind, lest one of
// them could make itself irremovable. Static ones may: who writes manifests can remove them.
//
// Source: IsExemptAdmissionConfigurationResource in
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
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

// anyMatches tells whether a request with this target obeys any of the rules.
func anyMatches(rules []admissionregistrationv1.RuleWithOperations, t target) bool {
	for i := range rules {
		if matches(&rules[i], t) {
			return true
		}
	}
	return false
}

func matches(rule *admissionregistrationv1.RuleWithOperations, t target) bool {
	return hasOrAll(rule.Operations, admissionregistrationv1.OperationType(t.operation)) &&
		hasOrAll(rule.APIGroups, t.resource.Group) &&
		hasOrAll(rule.APIVersions, t.resource.Version) &&
		slices.ContainsFunc(rule.Resources, func(pattern string) bool { return resourceMatches(pattern, t) }) &&
		scopeMatches(rule.Scope, t)
}

func hasOrAll[T ~string](list []T, value T) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// resourceMatches knows the patterns pods, pods/status, pods/*, */status, * (all resources, but no
// subresource) and */*.
func resourceMatches(pattern string, t target) bool {
	resource, subresource, _ := strings.Cut(pattern, "/")
	return (resource == "*" || resource == t.resource.Resource) && (subresource == "*" || subresource == t.subresource)
}

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

func scopeMatches(scope *admissionregistrationv1.ScopeType, t target) bool {
	if scope == nil {
		return true
	}
	switch *scope {
	case admissionregistrationv1.AllScopes:
		return true
	case admissionregistrationv1.NamespacedScope:
		return t.namespaced && t.resource != namespaces
	case admissionregistrationv1.ClusterScope:
		return !t.namespaced || t.resource == namespaces
	}
	return false
}
