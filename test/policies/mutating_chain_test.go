// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// Webhooks come after policies, and what they change has policies evaluated again that ask for it.
func TestMutatingAndWebhooks(t *testing.T) {
	ns := namespace(t)
	backend := webhooktest.New(t, webhooktest.Patch(
		`[{"op":"add","path":"/data","value":{"by":"webhook"}}]`))
	none := admissionregistrationv1.SideEffectClassNone
	webhooks := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := webhooks.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "w.example.com", ClientConfig: backend.ClientConfig("/"), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: inNamespace(ns).NamespaceSelector,
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"webhook": "true"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"configmaps"}}}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = webhooks.Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	// Neither changes anything by itself that isn't there after it was evaluated.
	const see = `Object{metadata: Object.metadata{labels: {%q: object.?data.by.orValue("nobody")}}}`
	create(t, ns, mutatingPolicy{name: "a", ifNeeded: true, mutations: mutations{fmt.Sprintf(see, "again")}},
		mutatingPolicy{name: "b", mutations: mutations{fmt.Sprintf(see, "once")}})
	servertest.Retry(t, "the webhook to be called", func() error {
		got, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"webhook": "true", "again": "nobody",
				"once": "nobody"}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got.Labels["again"] != "webhook" || got.Labels["once"] != "nobody" {
			return fmt.Errorf("labels are %v, data is %v", got.Labels, got.Data)
		}
		return nil
	})
}

// Policies of any version are in force, and what Kubernetes counts is counted.
func TestMutatingVersionsOfTheAPI(t *testing.T) {
	ns := namespace(t)
	before := mutatingPolicy{name: "v1", mutations: mutations{annotate("v1")}}
	create(t, ns, before)
	betas, alphas := client.AdmissionregistrationV1beta1(), client.AdmissionregistrationV1alpha1()
	beta, err := betas.MutatingAdmissionPolicies().Get(t.Context(), ns+"-v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expression := &beta.Spec.Mutations[1].ApplyConfiguration.Expression
	*expression = strings.ReplaceAll(*expression, `"v1"`, `"beta"`)
	if _, err := betas.MutatingAdmissionPolicies().Update(t.Context(), beta, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := alphas.MutatingAdmissionPolicyBindings().Create(t.Context(),
		&admissionregistrationv1alpha1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns +
			"-alpha"},
			Spec: admissionregistrationv1alpha1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns + "-v1"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	var _ *admissionregistrationv1beta1.MutatingAdmissionPolicy = beta
	servertest.Retry(t, "the change to be in force", func() error {
		got, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && got.Annotations["beta"] != "yes" {
			err = fmt.Errorf("annotations are %v", got.Annotations)
		}
		return err
	})
	body, err := cluster.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"check_total", "check_duration_seconds_count"} {
		sample := fmt.Sprintf(`apiserver_mutating_admission_policy_%s{error_type="no_error",policy="%s-v1",`+
			`policy_binding="%s-v1-0"} `, name, ns, ns)
		if !strings.Contains(string(body), sample) {
			t.Errorf("there is no %s", sample)
		}
	}
}
