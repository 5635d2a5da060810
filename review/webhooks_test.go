// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
	"gatehouse.dev/test/backends"
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
		calls   plugin.WebhookCalls
		want    string
	}{
		"skipped": {configuration("a", "Fail", "None"), "", `
admitted  ConfigMap default/c  -:1
          not asked: webhook a.example.com of a at URL
1 admitted, 0 refused, 0 failed
`},
		"asked": {configuration("a", "Fail", "NoneOnDryRun"), plugin.WebhooksAsked, `
admitted  ConfigMap default/c  -:1
          warning: it was asked
1 admitted, 0 refused, 0 failed
`},
		"down": {configuration("a", "Fail", "None"), plugin.WebhooksDown, `
refused   ConfigMap default/c  -:1
          by ValidatingAdmissionWebhook: Internal error occurred: failed calling webhook "a.example.com": ` +
			`failed to call webhook: all webhooks are taken to be down
          to pass: Have the webhook's server (URL) answer. Until it does nothing that its rules, selectors and match ` +
			`conditions cover passes, unless its failurePolicy is Ignore.
0 admitted, 1 refused, 0 failed
`},
		"down and ignored": {configuration("a", "Ignore", "None"), plugin.WebhooksDown, `
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

// Who would be asked about the pods of a workload is named with it, once, and so is the backend of
// a plugin, with what it would be asked; where they are down the plugin's configuration decides.
func TestAboutPods(t *testing.T) {
	const hook = `
kind: MutatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: inject}
webhooks:
- name: inject.example.com
  rules: [{operations: [CREATE], apiGroups: ["", apps], apiVersions: [v1], resources: [pods, replicasets]}]
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
`
	backend := backends.StartImages(t, backends.AllowImages)
	config := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"+
		"plugins:\n- name: ImagePolicyWebhook\n  configuration: {imagePolicy: {kubeConfigFile: "+backend.Kubeconfig+
		"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for calls, want := range map[plugin.WebhookCalls]string{
		"": `
admitted  Deployment shop/web  -:2
          not asked about its pods: webhook inject.example.com of inject at https://127.0.0.1:1/
          not asked about its pods: ImagePolicyWebhook at BACKEND: it would be asked, about images nginx, but no ` +
			`webhooks are
1 admitted, 0 refused, 0 failed
`,
		plugin.WebhooksAsked: `
admitted  Deployment shop/web  -:2
1 admitted, 0 refused, 0 failed
`,
		plugin.WebhooksDown: `
refused   Deployment shop/web  -:2
          none of 2 pods would start: by ImagePolicyWebhook: pods "web-…" is forbidden: error contacting webhook ` +
			`backend: all webhooks are taken to be down
0 admitted, 1 refused, 0 failed
`,
	} {
		t.Run(string(calls), func(t *testing.T) {
			before := len(backend.Calls())
			got := judged(t, []string{shop, hook}, []string{deployment("web", 2)}, func(o *review.Options) {
				o.Webhooks = calls
				o.Config.Admission.Enable = []string{"ImagePolicyWebhook"}
				o.Config.Admission.ConfigFile = config
			})
			got = strings.ReplaceAll(got, backend.URL+"/policy", "BACKEND")
			if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if asked := len(backend.Calls()) > before; asked != (calls == plugin.WebhooksAsked) {
				t.Errorf("the backend was asked: %t", asked)
			}
		})
	}
}

// A webhook can be asked at a local process, without TLS, while the others are skipped or down.
func TestLocalWebhooks(t *testing.T) {
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		if r.URL.Path != "/validate" || asked.Request.DryRun == nil || !*asked.Request.DryRun {
			t.Errorf("it was asked at %s, %+v", r.URL.Path, asked.Request)
		}
		asked.Response = &admissionv1.AdmissionResponse{UID: asked.Request.UID,
			Result: &metav1.Status{Message: "not with me"}}
		if err := json.NewEncoder(w).Encode(asked); err != nil {
			t.Error(err)
		}
	}))
	defer local.Close()
	state := `
kind: ValidatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: mine}
webhooks:
- name: first.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  clientConfig: {service: {name: s, namespace: hooks, path: /validate}}
  admissionReviewVersions: [v1]
  sideEffects: NoneOnDryRun
- name: second.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  clientConfig: {service: {name: s, namespace: hooks, path: /validate}}
  admissionReviewVersions: [v1]
  sideEffects: NoneOnDryRun
  failurePolicy: Ignore
`
	object := "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n"
	const denied = `          by ValidatingAdmissionWebhook: admission webhook "first.example.com" denied the request: not with me
          to pass: Change what the webhook's words name, or ask who runs it; what it is asked about is in its configuration.
`
	const skipped = "          not asked: webhook second.example.com of mine at https://s.hooks.svc/validate\n"
	for name, test := range map[string]struct {
		names []string
		calls plugin.WebhookCalls
		want  string
	}{
		"by its name": {[]string{"first.example.com"}, "", "refused   ConfigMap default/c  -:1\n" + denied + skipped},
		"by both names, all down": {[]string{"mine/first.example.com"}, plugin.WebhooksDown,
			"refused   ConfigMap default/c  -:1\n" + denied},
		"one is down": {[]string{"=first.example.com"}, "", "refused   ConfigMap default/c  -:1\n" +
			`          by ValidatingAdmissionWebhook: Internal error occurred: failed calling webhook "first.example.com": ` +
			"failed to call webhook: it is taken to be down\n" +
			`          to pass: Have the webhook's server (https://s.hooks.svc/validate) answer. Until it does nothing that its ` +
			`rules, selectors and match conditions cover passes, unless its failurePolicy is Ignore.` + "\n" + skipped},
		"a name that none has": {[]string{"first.exmaple.com"}, "", "admitted  ConfigMap default/c  -:1\n" +
			strings.Replace(skipped, "second", "first", 1) + skipped +
			`note: webhook "first.exmaple.com": no configuration has it, did you mean "first.example.com"? it ` +
			`wasn't asked` +
			"\n"},
		"a plugin's": {[]string{"ImagePolicyWebhook"}, "", "admitted  ConfigMap default/c  -:1\n" +
			strings.Replace(skipped, "second", "first", 1) + skipped +
			`note: webhook "ImagePolicyWebhook": that is a ` +
			"plugin, whose backends are where its own configuration says: no other was asked\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, []string{state}, []string{object}, func(o *review.Options) {
				o.Webhooks, o.LocalWebhooks = test.calls, map[string]string{}
				for _, name := range test.names {
					if down, ok := strings.CutPrefix(name, "="); ok {
						o.LocalWebhooks[down] = ""
						continue
					}
					o.LocalWebhooks[name] = local.URL
				}
			})
			got = got[:strings.LastIndex(strings.TrimSuffix(got, "\n"), "\n")+1] // without the summary
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
