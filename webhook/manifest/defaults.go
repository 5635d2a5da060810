package manifest

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// setDefaults sets what the API would have set
// (k8s.io/kubernetes/pkg/apis/admissionregistration/v1/defaults.go). Port 443 of a service
// reference is not among it: manifests have none.
func setDefaults(configuration runtime.Object) {
	switch c := configuration.(type) {
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
	}
}

func setRuleDefaults(rules []admissionregistrationv1.RuleWithOperations) {
	for i := range rules {
		setDefault(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func setDefault[V any](field **V, value V) {
	if *field == nil {
		*field = &value
	}
}
