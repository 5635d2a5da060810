// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// A webhook has at most 64 match conditions:
// k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go
// validateMatchConditions.
func TestMatchConditions(t *testing.T) {
	webhooks := servertest.Start(t).Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	url, none := "https://example.com", admissionregistrationv1.SideEffectClassNone
	with := func(conditions int) *validatingV1 {
		w := admissionregistrationv1.ValidatingWebhook{
			Name: "a.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, Rules: unmatched,
		}
		for i := range conditions {
			w.MatchConditions = append(w.MatchConditions,
				admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("c%d", i), Expression: "true"})
		}
		return &validatingV1{ObjectMeta: metav1.ObjectMeta{Name: "conditions"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{w}}
	}
	_, err := webhooks.Create(t.Context(), with(65), metav1.CreateOptions{})
	const want = `ValidatingWebhookConfiguration.admissionregistration.k8s.io "conditions" is invalid: ` +
		`webhooks[0].matchConditions: Too many: 65: must have at most 64 items`
	if err == nil || err.Error() != want {
		t.Errorf("with 65: error is\n  %v\nwant\n  %s", err, want)
	}
	made, err := webhooks.Create(t.Context(), with(64), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("with 64: %v", err)
	}
	if got := len(made.Webhooks[0].MatchConditions); got != 64 {
		t.Errorf("made with %d conditions", got)
	}
}
