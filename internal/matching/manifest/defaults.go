// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setDefaults sets the API's defaults
// (k8s.io/kubernetes/pkg/apis/admissionregistration/v1/defaults.go), except port 443 of a service
// reference: manifests have no such references.
func setDefaults(object Object) {
	switch c := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			setDefault(&w.FailurePolicy, admissionregistrationv1.Fail)
			setDefault(&w.MatchPolicy, admissionregistrationv1.Equivalent)
			setDefault(&w.NamespaceSelector, metav1.LabelSelector{})
			setDefault(&w.ObjectSelector, metav1.LabelSelector{})
			setDefault(&w.TimeoutSeconds, 10)
			setDefault(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
			setRuleDefaults(w.Rules)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			setDefault(&w.FailurePolicy, admissionregistrationv1.Fail)
			setDefault(&w.MatchPolicy, admissionregistrationv1.Equivalent)
			setDefault(&w.NamespaceSelector, metav1.LabelSelector{})
			setDefault(&w.ObjectSelector, metav1.LabelSelector{})
			setDefault(&w.TimeoutSeconds, 10)
			setRuleDefaults(w.Rules)
		}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		setDefault(&c.Spec.FailurePolicy, admissionregistrationv1.Fail)
		setResourcesDefaults(c.Spec.MatchConstraints)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		setResourcesDefaults(c.Spec.MatchResources)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		setDefault(&c.Spec.FailurePolicy, admissionregistrationv1.Fail)
		setResourcesDefaults(c.Spec.MatchConstraints)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		setResourcesDefaults(c.Spec.MatchResources)
	}
}

func setRuleDefaults(rules []admissionregistrationv1.RuleWithOperations) {
	for i := range rules {
		setDefault(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func setResourcesDefaults(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	setDefault(&m.MatchPolicy, admissionregistrationv1.Equivalent)
	setDefault(&m.NamespaceSelector, metav1.LabelSelector{})
	setDefault(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			setDefault(&rules[i].Scope, admissionregistrationv1.AllScopes)
		}
	}
}

func setDefault[V any](field **V, value V) {
	if *field == nil {
		*field = &value
	}
}
