// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookbreaker_test

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// Two servers over one etcd don't tell each other which backends are down. Each finds out by itself, and each
// finds out that they are back.
func TestServersFindOutByThemselves(t *testing.T) {
	store := servertest.StartEtcd(t)
	var clients [2]kubernetes.Interface
	for i := range clients {
		p := servertest.NewProcess(t, "--etcd-servers="+store.Endpoint())
		p.Start(t)
		clients[i] = p.Connect(t).Client
	}
	b := webhooktest.New(t, webhooktest.Allow())
	api := clients[0].AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), configuration("servers", "default", b.ClientConfig("/"),
		admissionregistrationv1.Fail), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	isOut := func(client kubernetes.Interface) bool {
		body, err := client.CoreV1().RESTClient().Get().AbsPath("/debug/webhooks").DoRaw(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(body), b.Address())
	}
	for i, client := range clients {
		calls := b.Calls()
		servertest.Eventually(t, "the server to ask the webhook", func() bool {
			return write(client) == nil && b.Calls() > calls
		})
		if isOut(client) {
			t.Errorf("server %d doesn't call a backend that works", i)
		}
	}
	b.Stop()
	servertest.Eventually(t, "the first server not to call it", func() bool {
		_ = write(clients[0])
		return isOut(clients[0])
	})
	if isOut(clients[1]) {
		t.Error("the second server doesn't call it, and has never tried")
	}
	servertest.Eventually(t, "the second server not to call it", func() bool {
		_ = write(clients[1])
		return isOut(clients[1])
	})
	b.Restart()
	for _, client := range clients {
		servertest.Eventually(t, "the server to call it again", func() bool { return write(client) == nil })
		if isOut(client) {
			t.Error("a server says that it doesn't call what it calls")
		}
	}
}
