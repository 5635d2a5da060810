// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// Of an answer that doesn't end no more is held than one may have, whatever the number of requests
// that get one.
func TestEndlessAnswersAreNotHeld(t *testing.T) {
	leakFree(t)
	const (
		calls = 20
		each  = 32 << 20 // of which a half is the backend's
	)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		b := webhooktest.New(t, webhooktest.Endless())
		remove := install(t, p, ns, faulty{backend: b.ClientConfig("/"), timeout: 30})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				wantStatus(t, createMap(t.Context(), ns, newMap(fmt.Sprint("c", i))), http.StatusInternalServerError,
					metav1.StatusReasonInternalError,
					calling(p.webhookName())+"failed to call webhook: the response body is too large: limit is 3145728")
			})
		}
		wg.Wait()
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > calls*each {
			t.Errorf("allocated %d MiB for %d endless answers", allocated>>20, calls)
		}
		remove()
		unconnected(t, b)
	})
	wantAlive(t)
}

// warnings is a client's WarningHandler.
type warnings struct{ got []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.got = append(w.got, text) }

// Warnings are passed on up to 4,096 characters; where they are more, each is cut to 256. What
// can't be in a header is dropped. A refusal comes with them, too.
//
// Source: k8s.io/apiserver/pkg/endpoints/filters/warning.go, NewWarningHeader in
// k8s.io/apimachinery/pkg/util/net/http.go.
func TestThousandsOfWarnings(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		for _, test := range []struct {
			name     string
			warnings []string
			denied   bool
			want     func(got []string) bool
		}{
			// 10 of 9 characters, 90 of 10 and 283 of 11 are the first that are more than 4,096.
			{"thousands", numbered(5000), false, func(got []string) bool { return slices.Equal(got, numbered(383)) }},
			{"thousands-denied", numbered(5000), true,
				func(got []string) bool { return slices.Equal(got, numbered(383)) }},
			{"a-long-one", []string{"short", strings.Repeat("ö", 1<<20), "last"}, false, func(got []string) bool {
				return slices.Equal(got, []string{"short", strings.Repeat("ö", 256), "last"})
			}},
			{"the-same", []string{"again", "again", "", "again"}, false,
				func(got []string) bool { return slices.Equal(got, []string{"again"}) }},
			{"no-header", []string{"a\r\nX-Injected: yes", "nul\x00", `a "quoted" one`}, false,
				func(got []string) bool { return slices.Equal(got, []string{`a "quoted" one`}) }},
		} {
			t.Run(test.name, func(t *testing.T) {
				b := webhooktest.New(t,
					webhooktest.Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
						return &admissionv1.AdmissionResponse{Allowed: !test.denied, Warnings: test.warnings}
					}))
				remove := install(t, p, ns, faulty{backend: b.ClientConfig("/")})
				warned := &warnings{}
				own := rest.CopyConfig(config)
				own.WarningHandler = warned
				_, err := kubernetes.NewForConfigOrDie(own).CoreV1().ConfigMaps(ns).Create(t.Context(),
					newMap(test.name), metav1.CreateOptions{})
				if (err != nil) != test.denied {
					t.Error(err)
				}
				if !test.want(warned.got) {
					t.Errorf("the client got %d warnings: %.300q", len(warned.got), warned.got)
				}
				remove()
				servertest.Eventually(t, "the configuration to be out of force",
					func() bool { return !isProbed(t, p, ns) })
				unconnected(t, b)
			})
		}
	})
}

// numbered are the warnings of webhooktest.Warnings(n).
func numbered(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("warning %d", i)
	}
	return all
}

// auditPolicy logs writes of configmaps with what they send.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create]
  resources: [{group: "", resources: [configmaps]}]
- level: None
`

// The audit log tells of mutations and their patches, of failing open, and what webhooks say for
// it. A webhook can say as much as an answer holds; what isn't a key of an annotation is dropped.
// None of it fails the request.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go,
// checkKeyFormat in pkg/admission/attributes.go.
func TestAuditAnnotations(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := gatehousetest.Start(t,
		gatehousetest.WithConfig(func(c *server.Config) { c.API.Audit.PolicyFile, c.API.Audit.LogOptions.Path = policy, log }))
	api := kubernetes.NewForConfigOrDie(srv.Config)

	said := map[string]string{strings.Repeat("k", 64): "too long a key", "no key": "", "/": "", "": "",
		"large": strings.Repeat("v", 1<<20)}
	for i := range 1000 {
		said[fmt.Sprint("key", i)] = "value"
	}
	answer := func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		response := allow(r)
		if r.Kind.Kind == "ConfigMap" {
			response.AuditAnnotations = said
		}
		return response
	}
	m := webhooktest.New(t, webhooktest.Respond(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		response := patch(`[{"op":"add","path":"/data/by","value":"webhook"}]`)(r)
		response.AuditAnnotations = answer(r).AuditAnnotations
		return response
	}))
	v := webhooktest.New(t, webhooktest.Respond(answer))
	down := "https://" + webhooktest.Refusing(t)
	writes := []admissionregistrationv1.RuleWithOperations{rule("", "v1", "configmaps", "CREATE")}
	none, ignore := new(admissionregistrationv1.SideEffectClassNone), new(admissionregistrationv1.Ignore)
	_, err := api.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "audited"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{
				{Name: "patching.example.com", ClientConfig: m.ClientConfig("/"), Rules: writes, SideEffects: none,
					AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: selector("default")},
				{Name: "down.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &down},
					FailurePolicy: ignore, Rules: writes, SideEffects: none, AdmissionReviewVersions: []string{"v1"},
					NamespaceSelector: selector("default")},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "audited"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{Name: "down.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &down},
					FailurePolicy: ignore, Rules: writes, SideEffects: none, AdmissionReviewVersions: []string{"v1"},
					NamespaceSelector: selector("default")},
				{Name: "saying.example.com", ClientConfig: v.ClientConfig("/"), Rules: writes, SideEffects: none,
					AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: selector("default")},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "both configurations to be in force", func() bool {
		_, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), newMap("probe"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		return m.Calls() > 0 && v.Calls() > 0
	})
	if _, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), newMap("audited"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	var event *auditv1.Event
	servertest.Eventually(t, "the event", func() bool { event = auditEvent(t, log, "audited"); return event != nil })
	want := map[string]string{
		"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"audited",` +
			`"webhook":"patching.example.com","mutated":true}`,
		"patch.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"audited",` +
			`"webhook":"patching.example.com","patch":[{"op":"add","path":"/data/by","value":"webhook"}],` +
			`"patchType":"JSONPatch"}`,
		"mutation.webhook.admission.k8s.io/round_0_index_1": `{"configuration":"audited",` +
			`"webhook":"down.example.com","mutated":false}`,
		"failed-open.mutation.webhook.admission.k8s.io/round_0_index_1":   "down.example.com",
		"failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "down.example.com",
		"admission.gatehouse.dev/changed-by":                              "MutatingAdmissionWebhook",
	}
	for _, webhook := range []string{"patching.example.com", "saying.example.com"} {
		want[webhook+"/large"] = said["large"]
		for i := range 1000 {
			want[webhook+"/"+fmt.Sprint("key", i)] = "value"
		}
	}
	got := maps.Clone(event.Annotations)
	maps.DeleteFunc(got, func(key, _ string) bool {
		return strings.HasPrefix(key, "authorization.k8s.io/") || strings.HasPrefix(key, "apiserver.latency.k8s.io/")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got): %.2000s", diff)
	}
}

// auditEvent is the event of a configmap's creation, nil while there is none.
func auditEvent(t *testing.T, log, name string) *auditv1.Event {
	t.Helper()
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var event auditv1.Event
		if json.Unmarshal(lines.Bytes(), &event) != nil { // the last line, half written
			continue
		}
		if event.ObjectRef != nil && event.ObjectRef.Namespace == "default" && event.RequestObject != nil &&
			strings.Contains(string(event.RequestObject.Raw), `"name":"`+name+`"`) {
			return &event
		}
	}
	return nil
}
