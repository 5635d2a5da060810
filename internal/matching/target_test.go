// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Source: IsExemptAdmissionConfigurationResource in
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules, admissionResources in
// k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go, and
// k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion.
func TestExemptions(t *testing.T) {
	const registration, authentication = "admissionregistration.k8s.io", "authentication.k8s.io"
	const authorization = "authorization.k8s.io"
	for _, test := range []struct {
		group, kind, resource         string
		configuration, policy, review bool
	}{
		{registration, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", true, false, false},
		{registration, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", true, false, false},
		{registration, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", true, true, false},
		{registration, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", true, true, false},
		{registration, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", true, true, false},
		{registration, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", true, true, false},
		{registration, "Other", "others", false, false, false},
		{"example.com", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false, false, false},
		{authentication, "TokenReview", "tokenreviews", false, false, true},
		{authentication, "SelfSubjectReview", "selfsubjectreviews", false, false, true},
		{authorization, "SubjectAccessReview", "subjectaccessreviews", false, false, true},
		{authorization, "SelfSubjectAccessReview", "selfsubjectaccessreviews", false, false, true},
		{authorization, "LocalSubjectAccessReview", "localsubjectaccessreviews", false, false, true},
		{authorization, "SelfSubjectRulesReview", "selfsubjectrulesreviews", false, false, true},
		{"", "TokenReview", "tokenreviews", false, false, false},
		{"", "ServiceAccount", "serviceaccounts", false, false, false},
	} {
		for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
			kind := schema.GroupVersionKind{Group: test.group, Version: version, Kind: test.kind}
			target := TargetOf(request(create, kind, test.resource, "", "o", nil, nil))
			if got := target.IsConfiguration(); got != test.configuration {
				t.Errorf("%v: IsConfiguration is %t", kind, got)
			}
			if got := target.IsPolicy(); got != test.policy {
				t.Errorf("%v: IsPolicy is %t", kind, got)
			}
			if got := target.IsReview(); got != test.review {
				t.Errorf("%v: IsReview is %t", kind, got)
			}
		}
	}
}
