// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// Mirror pods are refused by the plugin, with its words, and not by the API's validation: it knows
// no clusterTrustBundle while that is off, and says of a token that it needs an account.
func TestMirrorPodsReferToNothing(t *testing.T) {
	c := unguarded()
	namespace := c.Namespace(t, nil)
	path := "x"
	for want, source := range map[string]corev1.VolumeProjection{
		"a mirror pod may not use ServiceAccountToken volume projections": {
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: path}},
		"a mirror pod may not reference clustertrustbundles": {
			ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &path, Path: path}},
	} {
		pod := servertest.Pod("mirror")
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		pod.Spec.NodeName = "n"
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}}}
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		c.refused(t, "a mirror pod", err, want)
	}
}

// A mutating webhook sees the account by both of its names, and isn't asked about a pod that uses
// Secrets which its account doesn't list.
func TestWebhooksSeeTheAccount(t *testing.T) {
	c := unguarded()
	namespace := c.Namespace(t, nil)
	var names atomic.Value
	backend := webhooktest.New(t, webhooktest.Respond(
		func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			var pod struct {
				Spec struct{ ServiceAccount, ServiceAccountName string }
			}
			_ = json.Unmarshal(r.Object.Raw, &pod)
			names.Store(pod.Spec.ServiceAccount + " " + pod.Spec.ServiceAccountName)
			return &admissionv1.AdmissionResponse{UID: r.UID, Allowed: true}
		}))
	c.mutate(t, namespace, backend, &metav1.LabelSelector{}, "pods")
	created := func() error {
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), servertest.Pod("p"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	servertest.Eventually(t, "the webhook to be called", func() bool { return created() == nil && backend.Calls() > 0 })
	if got := names.Load(); got != "default default" {
		t.Errorf("the webhook sees %q", got)
	}

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "strict",
		Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}}}
	if _, err := c.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := backend.Calls()
	pod := servertest.Pod("p")
	pod.Spec.ServiceAccountName = "strict"
	pod.Spec.Volumes = []corev1.Volume{{Name: "v",
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
	_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	c.refused(t, "a Secret that isn't listed", err, `volume with secret.secretName="s" is not allowed`)
	if backend.Calls() != before {
		t.Error("the webhook is asked about a pod that is refused")
	}
}

// mutate makes a mutating webhook of the objects in a namespace, or without one, until the test
// ends.
func (c *cluster) mutate(t *testing.T, namespace string, backend *webhooktest.Server, objects *metav1.LabelSelector,
	resources ...string) {
	t.Helper()
	scope := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	configurations := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "test.example.com", ClientConfig: backend.ClientConfig("/"), NamespaceSelector: scope,
			ObjectSelector:          objects,
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: resources},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = configurations.Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{})
	})
}
