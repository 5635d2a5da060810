// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"gatehouse.dev/internal/webhooktest"
)

// label answers with a patch that sets a label of the object to the value that it gets for the present one. It
// changes nothing if the value is the same.
func label(t *testing.T, name string, value func(now string) string) http.Handler {
	return webhooktest.Respond(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		var object struct {
			Metadata struct{ Labels map[string]string }
		}
		if err := json.Unmarshal(r.Object.Raw, &object); err != nil {
			t.Error(err)
		}
		if r.DryRun == nil || !*r.DryRun || r.UserInfo.Username == "" || len(r.Options.Raw) == 0 {
			t.Errorf("it is asked %+v", r)
		}
		now := object.Metadata.Labels[name]
		wanted := value(now)
		if wanted == now {
			return &admissionv1.AdmissionResponse{Allowed: true}
		}
		patch := fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, name, wanted)
		if object.Metadata.Labels == nil {
			patch = fmt.Sprintf(`[{"op":"add","path":"/metadata/labels","value":{%q:%q}}]`, name, wanted)
		}
		kind := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	})
}

func always(value string) func(string) string { return func(string) string { return value } }

func longer(now string) string { return now + "a" }

// configuration returns a configuration of a webhook about ConfigMaps at a backend.
func configuration(kind, name string, b *webhooktest.Server, more string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: %sWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: %[2]s.example.com
  clientConfig: {url: "%s", caBundle: %s}
  rules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 10
%s---
`, kind, name, b.URL("/"), base64.StdEncoding.EncodeToString(b.Authority.PEM()), more)
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colors, namespace: shop}\n---\n"

// ask returns the report on a text, whose webhooks are asked, about the backends alone.
func ask(t *testing.T, text string, change func(*Options)) *Report {
	t.Helper()
	return check(t, text, func(o *Options) {
		o.Ask, o.Now = true, time.Time{}
		for _, id := range RuleIDs() {
			if !slices.Contains(whenAsked, id) && id != "ca-mismatch" {
				o.Disabled = append(o.Disabled, id)
			}
		}
		if change != nil {
			change(o)
		}
	})
}

func TestMutatingWebhooks(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second http.Handler
		want          string
	}{
		"two labels":     {label(t, "a", always("1")), label(t, "b", always("1")), ""},
		"the same value": {label(t, "a", always("1")), label(t, "a", always("1")), ""},
		"two values":     {label(t, "a", always("1")), label(t, "a", always("2")), "mutating-fight"},
		"one that undoes": {label(t, "a", always("1")), label(t, "a", func(now string) string {
			return map[string]string{"": "", "0": "0", "1": "0"}[now]
		}), "mutating-fight"},
		"one that undoes and comes first": {label(t, "a", func(now string) string {
			return map[string]string{"": "", "0": "0", "1": "0"}[now]
		}), label(t, "a", always("1")), "mutating-fight"},
		"one that follows": {label(t, "a", always("1")), label(t, "b", func(now string) string { return max(now, "1") }), ""},
		"a default":        {label(t, "a", always("1")), label(t, "a", func(now string) string { return max(now, "0") }), ""},
		"one that grows":   {label(t, "a", longer), label(t, "b", always("1")), "reinvocation-unsettled"},
		"a refusal":        {label(t, "a", always("1")), webhooktest.Deny(403, "no"), ""},
	} {
		for with, object := range map[string]string{"an object": configMap, "an example": ""} {
			first, second := webhooktest.New(t, tt.first), webhooktest.New(t, tt.second)
			report := ask(t, object+configuration("Mutating", "a", first, "")+configuration("Mutating", "b", second,
				"  reinvocationPolicy: IfNeeded\n"), nil)
			if got := strings.Join(ids(report), " "); got != tt.want || len(report.Unread)+len(report.Notes) > 0 {
				t.Errorf("%s with %s: %q, want %q; unread %v, notes %q", name, with, got, tt.want, report.Unread, report.Notes)
			}
			for _, f := range report.Findings {
				if !strings.Contains(f.Message, "/metadata/labels") || !strings.Contains(f.Message, "the creation of ConfigMap colors") ==
					(object != "") {
					t.Errorf("%s with %s: %s", name, with, f.Message)
				}
			}
			if first.Calls() == 0 || second.Calls() == 0 || first.Calls()+second.Calls() > 60 {
				t.Errorf("%s with %s: %d and %d calls", name, with, first.Calls(), second.Calls())
			}
		}
	}
}

// A backend that can't be asked is unread, whatever is wrong with it.
func TestBackendsThatDontAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.Handler
		break_  func(*webhooktest.Server)
		want    string
	}{
		"down":       {webhooktest.Allow(), (*webhooktest.Server).Stop, "connection refused"},
		"frozen":     {webhooktest.Allow(), (*webhooktest.Server).Freeze, "no connection within 10s"},
		"hangs":      {webhooktest.Hang(), nil, "deadline exceeded"},
		"broken":     {webhooktest.Truncated(), nil, "json parse error"},
		"a web page": {webhooktest.HTML(), nil, "json"},
		"status 500": {webhooktest.Status(500, "text/plain", "no"), nil, "no"},
		"no patch":   {webhooktest.Patch(`[{"op":"remove","path":"/nope"}]`), nil, "nope"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "frozen" && testing.Short() {
				t.Skip("it takes 10 seconds")
			}
			for _, kind := range []string{"Mutating", "Validating"} {
				if kind == "Validating" && (name == "no patch" || name == "frozen") {
					continue
				}
				b := webhooktest.New(t, tt.handler)
				if tt.break_ != nil {
					tt.break_(b)
				}
				text := configMap + configuration(kind, "a", b, "")
				if name == "hangs" {
					text = strings.Replace(text, "timeoutSeconds: 10", "timeoutSeconds: 1", 1)
				}
				start := time.Now()
				report := ask(t, text, nil)
				if len(report.Unread) != 1 || !strings.Contains(report.Unread[0].Message, tt.want) || report.ExitCode(Error) != 2 ||
					!strings.HasPrefix(report.Unread[0].Message, "webhook a.example.com of a can't be asked: ") {
					t.Errorf("unread: %v, want %q", report.Unread, tt.want)
				}
				if took := time.Since(start); took > connectTime+10*time.Second {
					t.Errorf("it took %s", took)
				}
			}
		})
	}
}

// What the backend shows is compared with what the configuration expects.
func TestShownCertificates(t *testing.T) {
	other := webhooktest.NewAuthority(t)
	for name, tt := range map[string]struct {
		use  func(*webhooktest.Server)
		want string
	}{
		"good":         {func(b *webhooktest.Server) { use(b, b.Authority, 365*24*time.Hour, "127.0.0.1") }, ""},
		"soon":         {func(b *webhooktest.Server) { use(b, b.Authority, time.Hour, "127.0.0.1") }, "ca-expiring"},
		"expired":      {func(b *webhooktest.Server) { use(b, b.Authority, -time.Hour, "127.0.0.1") }, "ca-mismatch"},
		"another name": {func(b *webhooktest.Server) { use(b, b.Authority, time.Hour, "example.com") }, "ca-mismatch"},
		"another's":    {func(b *webhooktest.Server) { use(b, other, time.Hour, "127.0.0.1") }, "ca-mismatch"},
	} {
		b := webhooktest.New(t, webhooktest.Allow())
		tt.use(b)
		report := ask(t, configMap+configuration("Validating", "a", b, ""), func(o *Options) {
			o.Disabled = slices.DeleteFunc(o.Disabled, func(id string) bool { return id == "ca-expiring" })
		})
		// The authority's own certificate ends within the hour.
		report.Findings = slices.DeleteFunc(report.Findings, func(f Finding) bool {
			return strings.HasPrefix(f.Message, "its caBundle expires")
		})
		if got := strings.Join(ids(report), " "); got != tt.want || len(report.Unread) > 0 {
			t.Errorf("%s: %q, want %q; unread %v", name, got, tt.want, report.Unread)
		}
		if called := b.Calls() > 0; called != (tt.want != "ca-mismatch") {
			t.Errorf("%s: %d calls", name, b.Calls())
		}
	}
}

func use(b *webhooktest.Server, a *webhooktest.Authority, valid time.Duration, host string) {
	b.UseCertificate(a.Serving(time.Now().Add(valid), host))
}

// A Service is called at its endpoints, and verified by its name.
func TestAskServices(t *testing.T) {
	b := webhooktest.New(t, webhooktest.Allow(), webhooktest.Names("hook.hooks.svc"))
	_, port, err := net.SplitHostPort(b.Address())
	if err != nil {
		t.Fatal(err)
	}
	webhook := strings.Replace(configuration("Validating", "a", b, ""), fmt.Sprintf("url: %q", b.URL("/")),
		"service: {namespace: hooks, name: hook}", 1)
	services := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {namespace: hooks, name: hook}
spec: {clusterIP: 10.0.0.1, ports: [{port: 443, targetPort: %s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: hooks, name: hook-1, labels: {kubernetes.io/service-name: hook}}
addressType: IPv4
ports: [{name: "", port: %[1]s}]
endpoints: [{addresses: [127.0.0.1], conditions: {ready: true}}]
---
`, port)
	if report := ask(t, configMap+services+webhook, nil); len(report.Unread)+len(report.Findings) > 0 || b.Calls() == 0 {
		t.Errorf("%d calls, findings %v, unread %v", b.Calls(), report.Findings, report.Unread)
	}
	report := ask(t, configMap+webhook, nil)
	if len(report.Unread) != 1 || !strings.Contains(report.Unread[0].Message, "--webhook a.example.com=URL") {
		t.Errorf("without the Service: %v", report.Unread)
	}
}

// Only webhooks without side effects are called, unless nobody asks for that; a local process stands in for a backend.
func TestAskedWebhooks(t *testing.T) {
	b := webhooktest.New(t, webhooktest.Allow())
	text := configMap + configuration("Validating", "a", b, "")
	if check(t, text, nil); b.Calls()+b.Handshakes() > 0 {
		t.Error("it is called although nobody asks for that")
	}
	effects := strings.Replace(text, "sideEffects: None", "sideEffects: Some", 1)
	report := ask(t, effects, nil)
	if b.Calls() > 0 || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "sideEffects") {
		t.Errorf("with side effects: %d calls, notes %q", b.Calls(), report.Notes)
	}
	never := webhooktest.New(t, webhooktest.Allow())
	never.Stop()
	for _, name := range []string{"a", "a.example.com", "a/a.example.com"} {
		before := b.Calls()
		report := check(t, configMap+configuration("Validating", "a", never, ""), func(o *Options) {
			o.LocalWebhooks = map[string]string{name: b.URL("")}
		})
		if b.Calls() != before+1 || len(report.Unread) > 0 {
			t.Errorf("--webhook %s: %d calls, unread %v", name, b.Calls()-before, report.Unread)
		}
	}
	report = check(t, text, func(o *Options) { o.LocalWebhooks = map[string]string{"nobody": b.URL("")} })
	if len(report.Unread) != 1 || !strings.Contains(report.Unread[0].Message, `no configuration has a webhook "nobody"`) {
		t.Errorf("unread: %v", report.Unread)
	}
}

// Webhooks that all hang end with the time for all of them, however long each may take.
func TestAskTime(t *testing.T) {
	text := configMap
	for _, name := range []string{"a", "b", "c"} {
		text += strings.Replace(configuration("Mutating", name, webhooktest.New(t, webhooktest.Hang()), ""), "timeoutSeconds: 10",
			"timeoutSeconds: 30", 1)
	}
	start := time.Now()
	report := ask(t, text, func(o *Options) { o.askTime = 500 * time.Millisecond })
	if len(report.Unread) != 1 || !strings.Contains(report.Unread[0].Message, "all webhooks together took longer than 500ms") ||
		report.ExitCode(Error) != 2 {
		t.Errorf("unread: %v", report.Unread)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
