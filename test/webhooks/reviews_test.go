// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// No webhook is asked about reviews of identities and rights, so none can lock everybody out. A user
// who configures one that names them is warned.
//
// Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation/warnings.go#WarningsForValidatingWebhookRules a630d7a5
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/exclusion_test.go#TestWebhookVirtualResourceExclusion 7250e998
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/exclusion_test.go#TestWebhookVirtualResourceExclusionWarnings e53719a9
func TestReviewsAreNotForWebhooks(t *testing.T) {
	namespace := namespace(t)
	b := newBackend(t, allow)
	warned := &warnings{}
	own := rest.CopyConfig(config)
	own.WarningHandler = warned
	api := kubernetes.NewForConfigOrDie(own).AdmissionregistrationV1()

	none := admissionregistrationv1.SideEffectClassNone
	reviews := rule("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
	reviews.Resources = append(reviews.Resources, "subjectaccessreviews")
	webhooks := []admissionregistrationv1.ValidatingWebhook{
		{Name: "reviews.example.com", ClientConfig: b.ClientConfig("/"), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, Rules: []admissionregistrationv1.RuleWithOperations{
				rule("", "v1", "nothing"), reviews}},
		{Name: "everything.example.com", ClientConfig: b.ClientConfig("/"), SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, Rules: []admissionregistrationv1.RuleWithOperations{
				rule("*", "*", "tokenreviews"), rule("*", "*", "selfsubjectreviews")}},
	}
	c, err := api.ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: webhooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = api.ValidatingWebhookConfigurations().Delete(context.Background(), namespace, metav1.DeleteOptions{})
	})
	want := []string{
		"webhooks[0].rules[1]: selfsubjectaccessreviews.authorization.k8s.io is excluded from admission webhooks; " +
			"this rule will have no effect",
		"webhooks[0].rules[1]: subjectaccessreviews.authorization.k8s.io is excluded from admission webhooks; " +
			"this rule will have no effect",
	}
	if !slices.Equal(warned.got, want) {
		t.Errorf("the warnings are\n%q, want\n%q", warned.got, want)
	}
	warned.got = nil
	c.Webhooks[0].Rules = []admissionregistrationv1.RuleWithOperations{rule("authentication.k8s.io", "v1", "tokenreviews")}
	if _, err := api.ValidatingWebhookConfigurations().Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want = []string{"webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; " +
		"this rule will have no effect"}
	if !slices.Equal(warned.got, want) {
		t.Errorf("the warnings about the update are\n%q, want\n%q", warned.got, want)
	}
	validating(t, namespace, b, nil, rule("", "v1", "configmaps")) // that it is in force says that the first is

	if _, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}}},
		metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	for _, asked := range b.asked() {
		t.Errorf("the webhook was asked about %v", asked.Resource)
	}
}
