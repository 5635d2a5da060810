// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhookbreaker_test has backends of webhooks fail under a running server that doesn't wait for
// them again. Each test keeps to a namespace of its own.
package webhookbreaker_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

// The one server of all tests, and its client.
var (
	cluster *servertest.Cluster
	client  kubernetes.Interface
)

func TestMain(m *testing.M) {
	needs.NotShort()
	if err := serveNames(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cluster = servertest.Start(&suite,
		gatehousetest.WithConfig(func(c *server.Config) { c.WebhookBreaker = true }))
	client = kubernetes.NewForConfigOrDie(servertest.Quick(cluster.Config))
	suite.Main(m)
}

func namespace(t *testing.T) string {
	t.Helper()
	name := cluster.Namespace(t, nil)
	t.Cleanup(func() { _ = client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return name
}

// create makes a dry run of the creation of a ConfigMap.
func create(ctx context.Context, ns, name string) error {
	_, err := client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// install has a validating webhook asked about ConfigMaps in the namespace, and waits until it is. It
// returns what deletes the configuration; so does the test's end.
func install(t *testing.T, ns string, b *webhooktest.Server, policy admissionregistrationv1.FailurePolicyType) func() {
	t.Helper()
	return installAt(t, ns, b, b.ClientConfig("/"), policy)
}

// installAt installs a webhook that is called in another way than by the backend's address.
func installAt(t *testing.T, ns string, b *webhooktest.Server, at admissionregistrationv1.WebhookClientConfig,
	policy admissionregistrationv1.FailurePolicyType) func() {
	t.Helper()
	api := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := api.Create(t.Context(), configuration(ns, ns, at, policy), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remove := sync.OnceFunc(func() {
		if err := api.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	servertest.Eventually(t, "the configuration to be in force", func() bool {
		_ = create(t.Context(), ns, "probe")
		return b.Calls() > 0
	})
	return remove
}

// timeout is how many seconds a call may take. On a busy machine a second is too little for an answer.
const timeout = 5

// configuration is that of a webhook that is asked about ConfigMaps in the namespace.
func configuration(prefix, ns string, at admissionregistrationv1.WebhookClientConfig,
	policy admissionregistrationv1.FailurePolicyType) *admissionregistrationv1.ValidatingWebhookConfiguration {
	none := admissionregistrationv1.SideEffectClassNone
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "breaker.example.com", ClientConfig: at, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(timeout)), FailurePolicy: &policy,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"configmaps"}},
			}},
		}},
	}
}
