// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.dev/internal/review/input"
)

// now is the time of the tests.
var now = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)

// check returns the report on a text.
func check(t *testing.T, text string, change func(*Options)) *Report {
	t.Helper()
	documents, errs := input.Read([]string{"-"}, strings.NewReader(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	o := Options{Documents: documents, Texts: map[string][]byte{"-": []byte(text)}, Now: now}
	if change != nil {
		change(&o)
	}
	report, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// ids returns the IDs of a report's findings, each once.
func ids(r *Report) (found []string) {
	for _, f := range r.Findings {
		found = append(found, f.ID)
	}
	return slices.Compact(slices.Sorted(slices.Values(found)))
}

// findings returns the findings of a rule.
func findings(r *Report, id string) (found []Finding) {
	for _, f := range r.Findings {
		if f.ID == id {
			found = append(found, f)
		}
	}
	return found
}

// inCertificates are the rules that are tested with certificates made for it, and in a cluster.
var inCertificates = []string{"ca-invalid", "ca-damaged", "ca-missing", "ca-expired", "ca-expiring", "ca-mismatch"}

// Each rule finds its mistake, in every configuration and policy of the bad file, and nothing in the good one.
func TestRules(t *testing.T) {
	for _, rule := range Rules {
		if slices.Contains(inCertificates, rule.ID) || rule.ID == "refused" { // which package cli tests
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			read := func(kind string) *Report {
				text, err := os.ReadFile("testdata/" + rule.ID + "." + kind + ".yaml")
				if err != nil {
					t.Fatal(err)
				}
				report := check(t, string(text), nil)
				if len(report.Unread) > 0 {
					t.Errorf("%s: unread: %v", kind, report.Unread)
				}
				return report
			}
			bad := findings(read("bad"), rule.ID)
			for _, name := range withoutFinding(t, rule.ID, bad) {
				t.Errorf("the mistake of %s isn't found", name)
			}
			if len(bad) == 0 {
				t.Error("the mistake isn't found")
			}
			gravest := Warning
			for _, f := range bad {
				if f.Severity == Error {
					gravest = Error
				}
				if f.Message == "" || f.Remedy == "" || f.Source.Line == 0 || strings.HasSuffix(f.Message, ".") {
					t.Errorf("an incomplete finding: %+v", f)
				}
			}
			if gravest == Error && rule.Severity == Warning {
				t.Errorf("the table says that its findings are warnings, and one is an error")
			}
			for _, f := range findings(read("good"), rule.ID) {
				t.Errorf("a false alarm: %s: %s: %s", f.Source, f.Object, f.Message)
			}
		})
	}
}

// withoutFinding returns the names of the configurations and policies of a bad file that have no finding, unless all findings
// are those of other objects.
func withoutFinding(t *testing.T, id string, bad []Finding) (names []string) {
	t.Helper()
	documents, errs := input.Read([]string{"testdata/" + id + ".bad.yaml"}, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	judges := func(kind string) bool {
		return strings.HasSuffix(kind, "Configuration") || strings.HasSuffix(kind, "Policy")
	}
	if id == "timeouts-add-up" || slices.ContainsFunc(bad, func(f Finding) bool { return !judges(f.Object.Kind) }) {
		return nil
	}
	for _, d := range documents {
		if judges(d.Object.GetKind()) && !slices.ContainsFunc(bad, func(f Finding) bool {
			return f.Object.Name == d.Object.GetName()
		}) {
			names = append(names, d.Object.GetName())
		}
	}
	return names
}

// What is nobody's mistake has no findings at all.
func TestNothingToFind(t *testing.T) {
	for _, id := range []string{"timeout-long", "deprecated-version", "binding-params", "service-port"} {
		text, err := os.ReadFile("testdata/" + id + ".good.yaml")
		if err != nil {
			t.Fatal(err)
		}
		bound := func(o *Options) { o.Disabled = []string{"policy-unbound"} }
		if found := ids(check(t, string(text), bound)); len(found) > 0 {
			t.Errorf("%s: %q", id, found)
		}
	}
}

// A rule that is left out finds nothing.
func TestDisabled(t *testing.T) {
	long := strings.Replace(fmt.Sprintf(webhookWith, ""), "timeoutSeconds: 5", "timeoutSeconds: 20", 1)
	if got := ids(check(t, long, func(o *Options) { o.Disabled = []string{"timeout-long"} })); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

const webhookWith = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: c}
webhooks:
- name: w.example.com
  clientConfig: {service: {namespace: hooks, name: hook}%s}
  rules: [{operations: [CREATE], apiGroups: [example.com], apiVersions: ["*"], resources: [widgets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
`

const conversionWith = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boards.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boards, kind: Board}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {namespace: hooks, name: hook}%s}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

const backendObjects = `---
apiVersion: v1
kind: Service
metadata: {namespace: hooks, name: hook}
spec: {selector: {app: hook}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: hooks, name: hook}
spec:
  template:
    metadata: {labels: {app: hook}}
    spec: {containers: [{name: c, image: i}], volumes: [{name: tls, secret: {secretName: tls}}]}
---
apiVersion: v1
kind: Secret
metadata: {namespace: hooks, name: tls}
data: {tls.crt: %s}
`

// certificate returns a certificate for the Service that signs itself, in base64.
func certificate(t *testing.T, until time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hook"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: now.Add(-time.Hour * 24 * 365), NotAfter: until,
		DNSNames: []string{"hook.hooks.svc"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestCertificates(t *testing.T) {
	const day = 24 * time.Hour
	good, other := certificate(t, now.Add(365*day)), certificate(t, now.Add(365*day))
	cluster := func(o *Options) { o.Complete = true }
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	decoded := func(text string) string {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, tt := range []struct {
		name, bundle, serving string
		change                func(*Options)
		want                  string
	}{
		{"good", good, good, nil, ""},
		{"invalid", base64.StdEncoding.EncodeToString([]byte("a")), good, nil, "ca-invalid"},
		{"with text around", encoded("# a\n" + decoded(good) + "# b\n" + decoded(other) + "# end\n"), good, nil, ""},
		{"cut off", encoded(decoded(good) + decoded(other)[:200]), good, nil, "ca-damaged"},
		{"damaged", encoded(decoded(good) + strings.Replace(decoded(other), "M", "N", 1)), good, nil, "ca-damaged"},
		{"expired", certificate(t, now.Add(-day)), "", nil, "ca-expired"},
		{"expiring", certificate(t, now.Add(29*day)), "", nil, "ca-expiring"},
		{"not soon", certificate(t, now.Add(31*day)), "", nil, ""},
		{"mismatch", other, good, nil, "ca-mismatch"},
		{"missing in files", "", good, nil, ""},
		{"missing in a cluster", "", "", cluster, "ca-missing"},
	} {
		bundle := ""
		if tt.bundle != "" {
			bundle = ", caBundle: " + tt.bundle
		}
		text := fmt.Sprintf(webhookWith, bundle)
		if tt.serving != "" {
			text += fmt.Sprintf(backendObjects, tt.serving)
		}
		report := check(t, text, tt.change)
		some := func(r *Report) string {
			return strings.Join(slices.DeleteFunc(ids(r), func(id string) bool { return !slices.Contains(inCertificates, id) }), " ")
		}
		if got := some(report); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		// Conversion webhooks are called in the same way.
		if got := some(check(t, strings.Replace(text, fmt.Sprintf(webhookWith, bundle), fmt.Sprintf(conversionWith, bundle), 1),
			tt.change)); got != tt.want {
			t.Errorf("conversion, %s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// In a cluster, everything is known: what isn't there is missing.
func TestCluster(t *testing.T) {
	text := fmt.Sprintf(webhookWith, "") + `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`
	cluster := func(o *Options) { o.Complete = true }
	if got := ids(check(t, text, cluster)); !slices.Equal(got, []string{"binding-policy", "ca-missing", "service-missing"}) {
		t.Errorf("got %q", got)
	}
	if got := ids(check(t, text, nil)); !slices.Equal(got, []string{"binding-policy"}) {
		t.Errorf("from files: got %q", got)
	}
	service := text + strings.Split(backendObjects, "---\napiVersion: apps")[0]
	if got := ids(check(t, service, cluster)); !slices.Contains(got, "endpoints-missing") {
		t.Errorf("without endpoints: got %q", got)
	}
	const slice = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: hooks, name: hook-1, labels: {kubernetes.io/service-name: hook}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1], conditions: {ready: %t}}]
`
	if got := ids(check(t, service+fmt.Sprintf(slice, true), cluster)); slices.Contains(got, "endpoints-missing") {
		t.Errorf("with an endpoint: got %q", got)
	}
	if got := ids(check(t, service+fmt.Sprintf(slice, false), cluster)); !slices.Contains(got, "endpoints-missing") {
		t.Errorf("with an endpoint that isn't ready: got %q", got)
	}
}

// The pods of a webhook are found from pods of a cluster, too, by way of their owners.
func TestOwners(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(webhookWith, ""), "apiGroups: [example.com], apiVersions: [\"*\"], "+
		"resources: [widgets]", `apiGroups: [""], apiVersions: [v1], resources: [pods]`, 1) +
		strings.Split(backendObjects, "---\napiVersion: apps")[0] + `---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {namespace: hooks, name: hook-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: hook, controller: true, uid: a}]}
spec: {template: {metadata: {labels: {app: hook}}, spec: {containers: []}}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: hooks, name: hook-1-a, labels: {app: hook}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: hook-1, controller: true, uid: a}]}
spec: {containers: []}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: hooks, name: hook}
spec: {template: {metadata: {labels: {app: other}}, spec: {containers: []}}}
`
	found := findings(check(t, text, nil), "own-pods")
	if len(found) != 1 || !strings.Contains(found[0].Message, "ReplicaSet hooks/hook-1") ||
		!strings.Contains(found[0].Message, "Deployment hooks/hook ") {
		t.Errorf("got %+v", found)
	}
}

// An annotation ignores a rule, and says why.
func TestIgnored(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(webhookWith, ""), "timeoutSeconds: 5", "timeoutSeconds: 20", 1)
	annotated := strings.Replace(text, "{name: c}", `{name: c, annotations: {lint.gatehouse.dev/ignore: "%s"}}`, 1)
	for annotation, want := range map[string]string{
		"timeout-long: its models are slow": "",
		"timeout-long":                      "ignore-reason timeout-long",
		"timeout-lon: it is slow":           "ignore-reason timeout-long",
		"own-pods: they are elsewhere\\ntimeout-long: it is slow\\n": "",
	} {
		report := check(t, fmt.Sprintf(annotated, annotation), nil)
		if got := strings.Join(ids(report), " "); got != want {
			t.Errorf("%s: %q, want %q", annotation, got, want)
		}
		if want == "" && (len(report.Ignored) != 1 || report.Ignored[0].Reason == "") {
			t.Errorf("%s: ignored %+v", annotation, report.Ignored)
		}
	}
}

// Objects that can't be decoded are unread, and the exit code says so.
func TestUnread(t *testing.T) {
	text := fmt.Sprintf(webhookWith, "")
	for name, text := range map[string]string{
		"a misspelt field": strings.Replace(text, "timeoutSeconds", "timeoutSecond", 1),
		"a wrong type":     strings.Replace(text, "timeoutSeconds: 5", "timeoutSeconds: five", 1),
	} {
		report := check(t, text, nil)
		if len(report.Unread) != 1 || report.ExitCode(Error) != 2 || report.Unread[0].Source.Line != 1 {
			t.Errorf("%s: %+v, exit code %d", name, report.Unread, report.ExitCode(Error))
		}
	}
	report := check(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", nil)
	if len(report.Notes) != 1 || report.ExitCode(Error) != 0 {
		t.Errorf("nothing to check: %+v, exit code %d", report.Notes, report.ExitCode(Error))
	}
}

func TestExitCode(t *testing.T) {
	long := strings.Replace(fmt.Sprintf(webhookWith, ""), "timeoutSeconds: 5", "timeoutSeconds: 20", 1)
	wrong := strings.Replace(long, "sideEffects: None", "sideEffects: Some", 1)
	for _, tt := range []struct {
		text   string
		failOn Severity
		want   int
	}{{fmt.Sprintf(webhookWith, ""), Warning, 0}, {long, Error, 0}, {long, Warning, 1}, {wrong, Error, 1}} {
		if got := check(t, tt.text, nil).ExitCode(tt.failOn); got != tt.want {
			t.Errorf("--fail-on=%s: exit code %d, want %d", tt.failOn, got, tt.want)
		}
	}
}

// Lines are those of the fields, in lists too.
func TestLines(t *testing.T) {
	text := "# a comment\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- " +
		strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintf(webhookWith, ""), "\n"), "\n", "\n  ") + "\n"
	text = strings.Replace(text, "timeoutSeconds: 5", "timeoutSeconds: 20", 1)
	found := findings(check(t, text, nil), "timeout-long")
	if want := strings.Count(text[:strings.Index(text, "timeoutSeconds")], "\n") + 1; len(found) != 1 ||
		found[0].Source.Line != want {
		t.Errorf("got %+v, want line %d", found, want)
	}
}
