package review_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"gatehouse.dev/chain"
	"gatehouse.dev/review"
	"gatehouse.dev/webhook/webhooktest"
)

// Webhooks are skipped, asked as for a dry run, or taken to be down.
func TestWebhooks(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Respond(
		func(asked *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if asked.DryRun == nil || !*asked.DryRun {
				t.Error("a webhook was asked for good")
			}
			return &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: true,
				Warnings: []string{"it was asked"}}
		}))
	client := backend.ClientConfig("/")
	configuration := func(name, failurePolicy, sideEffects string) string {
		return fmt.Sprintf(`
kind: ValidatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: %s}
webhooks:
- name: %[1]s.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  clientConfig: {url: "%s", caBundle: %s}
  admissionReviewVersions: [v1]
  failurePolicy: %s
  sideEffects: %s
`, name, *client.URL, base64.StdEncoding.EncodeToString(client.CABundle), failurePolicy, sideEffects)
	}
	object := "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n"
	for name, test := range map[string]struct {
		webhook string
		calls   chain.WebhookCalls
		want    string
	}{
		"skipped": {configuration("a", "Fail", "None"), "", `
admitted  ConfigMap default/c  -:1
          not asked: webhook a.example.com of a at URL
1 admitted, 0 refused, 0 failed
`},
		"asked": {configuration("a", "Fail", "NoneOnDryRun"), chain.WebhooksAsked, `
admitted  ConfigMap default/c  -:1
          warning: it was asked
1 admitted, 0 refused, 0 failed
`},
		"down": {configuration("a", "Fail", "None"), chain.WebhooksDown, `
refused   ConfigMap default/c  -:1
          by ValidatingAdmissionWebhook: Internal error occurred: failed calling webhook "a.example.com": ` +
			`failed to call webhook: all webhooks are taken to be down
          to pass: Have the webhook's server answer. Until it does nothing that its rules, selectors and match ` +
			`conditions cover passes, unless its failurePolicy is Ignore.
0 admitted, 1 refused, 0 failed
`},
		"down and ignored": {configuration("a", "Ignore", "None"), chain.WebhooksDown, `
admitted  ConfigMap default/c  -:1
1 admitted, 0 refused, 0 failed
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, []string{test.webhook}, []string{object},
				func(o *review.Options) { o.Webhooks = test.calls })
			got = strings.ReplaceAll(got, *client.URL, "URL")
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
