// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"gatehouse.dev/apiserver/upstream"
)

// webhookAccount is the service account in kube-system as which the server shows itself to admission
// webhooks. It has no rights and needs none. KEP-6060 has the name; Kubernetes 1.37 has no such account
// yet.
const webhookAccount = "webhook-auth"

// showsTokens reports whether admission webhooks are shown tokens. A server in its own process has a
// key that nobody knows.
func (o *Options) showsTokens() bool {
	return o.WebhookTokens && !o.InProcess &&
		utilfeature.DefaultFeatureGate.Enabled(features.APIServerWebhookAuthenticationToken)
}

// webhookAccountTask makes the service account of webhooks' tokens.
func webhookAccountTask(client kubernetes.Interface) task {
	return task{"service account kube-system/" + webhookAccount, func(ctx context.Context) error {
		accounts := client.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
		if _, err := accounts.Get(ctx, webhookAccount, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: webhookAccount}},
			metav1.CreateOptions{})
		return err
	}}
}

// webhookToken makes a token for a webhook, as the API does for a TokenRequest. It isn't a request to
// the API, about which the webhook might be asked itself. The API server doesn't accept the token, as
// its audience is the webhook.
//
// Source: k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go#TokenREST.Create 9da14360
func (c *config) webhookToken(ctx context.Context, spec *authenticationv1.TokenRequestSpec) (
	*authenticationv1.TokenRequestStatus, error) {
	if c.options.tokenIssuer == nil {
		return nil, errors.New("the server signs no tokens: it needs --service-account-signing-key-file")
	}
	for _, audience := range spec.Audiences {
		if slices.Contains(c.generic.Authentication.APIAudiences, audience) {
			return nil, errors.New("api server audiences are invalid for webhook token requests")
		}
	}
	account, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, webhookAccount,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no service account %s/%s: create it, or start the server again",
			metav1.NamespaceSystem, webhookAccount)
	} else if err != nil {
		return nil, fmt.Errorf("reading the service account %s/%s: %w", metav1.NamespaceSystem, webhookAccount, err)
	}
	var validating *admissionregistrationv1.ValidatingWebhookConfiguration
	var mutating *admissionregistrationv1.MutatingWebhookConfiguration
	bound := metav1.ObjectMeta{Name: spec.BoundObjectRef.Name, UID: spec.BoundObjectRef.UID}
	switch spec.BoundObjectRef.Kind {
	case "ValidatingWebhookConfiguration":
		validating = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: bound}
	case "MutatingWebhookConfiguration":
		mutating = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: bound}
	default:
		return nil, fmt.Errorf("cannot bind token to object of type %s", spec.BoundObjectRef.Kind)
	}
	attestations := map[string]authentication.AttestationValue{}
	for key, value := range spec.Attestations {
		attestations[key] = authentication.AttestationValue(value)
	}
	now := time.Now()
	claims, private, err := serviceaccount.Claims(core.ServiceAccount{ObjectMeta: account.ObjectMeta}, nil, nil, nil,
		validating, mutating, int64(upstream.WebhookTokenLifetime/time.Second), 0, spec.Audiences, attestations)
	if err != nil {
		return nil, err
	}
	token, err := c.options.tokenIssuer.GenerateToken(ctx, claims, private)
	if err != nil {
		return nil, fmt.Errorf("failed to generate token: %w", err)
	}
	return &authenticationv1.TokenRequestStatus{Token: token,
		ExpirationTimestamp: metav1.NewTime(now.Add(upstream.WebhookTokenLifetime))}, nil
}
