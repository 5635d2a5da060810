// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"strings"
	"testing"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/chromium"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

// The page says which backend of a webhook the server doesn't call, and why.
func TestBackendThatIsNotCalled(t *testing.T) {
	needs.Programs(t, "chromium")
	cluster := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.WebhookBreaker = true }))
	gone := webhooktest.Refusing(t)
	kubectl := cluster.Kubectl(t, "default")
	kubectl.OK(`
kind: ValidatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: gone}
webhooks:
- name: gone.example.com
  clientConfig: {url: "https://`+gone+`/"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
`, "create", "--filename=-")
	servertest.Eventually(t, "the backend not to be called any more", func() bool {
		kubectl.OK("", "create", "configmap", "c", "--dry-run=server")
		return strings.Contains(kubectl.OK("", "get", "--raw", "/debug/webhooks"), gone)
	})
	b := newBrowser(t)
	visit(b, command(t, "--kubeconfig="+cluster.Kubeconfig)+"#view=parts")
	b.Until("document.querySelector('#parts')?.innerText.includes(\"doesn't call the webhook at " + gone + "\")")
	if text := chromium.See[string](b.Page, "document.querySelector('#parts').innerText"); !strings.Contains(text, "connection refused") ||
		!strings.Contains(text, "not made") {
		t.Errorf("the page doesn't say why:\n%s", text)
	}
}
