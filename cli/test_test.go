// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/test/needs"
)

// cluster is the state of suites: a namespace that admits two pods of one CPU each, and a webhook.
const cluster = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small, namespace: shop}
spec: {limits: [{type: Container, max: {cpu: "1"}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: shop}
spec: {hard: {pods: "2"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: names}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  validations:
  - {expression: object.metadata.name != 'web', message: another name}
  - {expression: object.metadata.name != 'db', message: yet another name}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: names}
spec: {policyName: names, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: pods.example.com
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  - {operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods, configmaps]}
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
`

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
`

// suiteOf is a suite over that state, with these cases.
func suiteOf(cases string) string {
	return "apiVersion: gatehouse.dev/v1alpha1\nkind: AdmissionTest\nspec:\n  state: [cluster.yaml]\n  cases:\n" + cases
}

// pod is the first line of cases that are about one.
const pod = "  - name: pod\n    object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: " +
	"{containers: [{name: c, image: i}]}}\n    expect: {verdict: Admitted}\n    table:\n"

var (
	tookTime  = regexp.MustCompile(`\d+\.\d\ds`)
	generated = regexp.MustCompile(`"d-[a-z0-9]+-[a-z0-9]{5}"`)
)

// Suites, and what is printed of them.
func TestSuites(t *testing.T) {
	needs.Server(t)
	for name, test := range map[string]struct {
		files        map[string]string
		args         []string
		want, errors string
		code         int
	}{
		"all pass": {files: map[string]string{"a.yaml": suiteOf(pod + `
    - {name: asked, expect: {webhooks: [pods.example.com], warnings: []}}
    - {name: refused, set: {metadata.name: web}, expect: {verdict: Refused, by: ValidatingAdmissionPolicy/names, matches: '^pods "web" .* another name$'}}
    - {name: updated, state: [{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}}]}}], set: {metadata.labels.a: b, spec.containers.0.resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}}}
    - {name: deleted, operation: delete, before: [{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: c, image: i}]}}]}
    - {name: changed, expect: {object: {spec: {containers: [{resources: {requests: {cpu: "1"}}}]}, metadata: {labels: null}}}}
`), "b.yaml": suiteOf(`
  - name: pods
    file: deployment.yaml
    expect: {verdict: Admitted, pods: {wanted: 3, admitted: 2, by: ResourceQuota/few, message: "exceeded quota: few"}}
`), "deployment.yaml": deployment}, want: `
ok    a  a.yaml    5 cases  0.00s
ok    b  b.yaml    1 case   0.00s
6 passed, 0 failed, 0 errors
`},
		"what differs": {files: map[string]string{"a.yaml": suiteOf(pod + `
    - {name: verdict, expect: {verdict: Refused}}
    - {name: refused, set: {metadata.name: web}}
    - {name: words, set: {metadata.name: db}, expect: {verdict: Refused, by: LimitRanger, message: too large, matches: ^db$}}
    - {name: fields, expect: {object: {spec: {hostname: a, priority: null, containers: []}}}}
    - {name: lists, expect: {webhooks: [], warnings: [old]}}
  - {name: pods, file: deployment.yaml, expect: {verdict: Admitted}}
`), "deployment.yaml": deployment}, code: 1, want: `
--- FAIL: a/pod/verdict  a.yaml:11
    verdict
      expected  Refused
      got       Admitted
    because   ValidatingAdmissionPolicy names with binding names: it was asked, and admits the request
    because   ValidatingAdmissionWebhook pods.example.com: it would be asked, but no webhooks are
--- FAIL: a/pod/refused  a.yaml:12
    verdict
      expected  Admitted
      got       Refused by ValidatingAdmissionPolicy/names: pods "web" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'names' denied request: another name
--- FAIL: a/pod/words  a.yaml:13
    by
      expected  LimitRanger
      got       ValidatingAdmissionPolicy/names
    message
      expected  too large
      got       pods "db" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'names' denied request: yet another name
    matches
      expected  ^db$
      got       pods "db" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'names' denied request: yet another name
    because   LimitRanger small: it was asked, and admits the request
--- FAIL: a/pod/fields  a.yaml:14
    object.spec.containers
      expected  []
      got       …
    object.spec.hostname
      expected  a
      got       (absent)
    object.spec.priority
      expected  (absent)
      got       0
--- FAIL: a/pod/lists  a.yaml:15
    warnings
      expected  ["old"]
      got       []
    webhooks
      expected  []
      got       ["pods.example.com"]
--- FAIL: a/pods  a.yaml:16
    pods
      expected  all admitted
      got       2 of 3 pods would start, then: by ResourceQuota: pods "d-…" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2
FAIL  a  a.yaml    6 cases  0.00s
0 passed, 6 failed, 0 errors
`},
		"cases don't see what others wrote": {files: map[string]string{"a.yaml": suiteOf(pod + `
    - {name: one, set: {metadata.labels.a: b}, expect: {object: {metadata: {generation: 1}}}}
    - {name: the same, expect: {object: {metadata: {labels: null}}}}
    - {name: another, set: {metadata.name: q}}
    - {name: a third, set: {metadata.name: r}}
    - {name: one that was, set: {metadata.labels.a: b}, state: [
        {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {c: d}}, spec: {containers: [{name: c, image: i}]}}],
       expect: {object: {metadata: {labels: {a: b, c: null}}}}}
    - {name: one that somebody made, set: {metadata.labels.a: b}, before: [
        {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {c: d}}, spec: {containers: [{name: c, image: i}]}}],
       expect: {object: {metadata: {labels: {a: b, c: d}}}}}
    - {name: with two before, set: {metadata.name: t}, expect: {verdict: Refused, by: ResourceQuota}, before: [
        {apiVersion: v1, kind: Pod, metadata: {name: r, namespace: shop}, spec: {containers: [{name: c, image: i}]}},
        {apiVersion: v1, kind: Pod, metadata: {name: s, namespace: shop}, spec: {containers: [{name: c, image: i}]}}]}
  - &kind
    name: a kind
    object: {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gates.example.com}, spec: {group: example.com, scope: Namespaced, names: {plural: gates, kind: Gate}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}
    expect: {verdict: Admitted}
  - {<<: *kind, name: the same kind, operation: create}
`)}, want: `
ok    a  a.yaml    9 cases  0.00s
9 passed, 0 failed, 0 errors
`},
		"who asks, and what may": {files: map[string]string{"a.yaml": `
apiVersion: gatehouse.dev/v1alpha1
kind: AdmissionTest
metadata: {name: rights}
spec:
  flags: [--authorize]
  state:
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: editors}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: editor}
    subjects: [{kind: Group, name: editors, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, namespace: ci, name: deployer}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: editor}
    aggregationRule: {clusterRoleSelectors: [{matchLabels: {editor: "yes"}}]}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: config, labels: {editor: "yes"}}
    rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: built-in}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
    subjects: [{kind: User, name: eva, apiGroup: rbac.authorization.k8s.io}]
  cases:
  - name: config
    object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
    expect: {verdict: Admitted}
    table:
    - {name: a group, as: {user: eve, groups: [editors]}}
    - {name: by a role that every cluster has, as: {user: eva}}
    - {name: an account, as: {serviceAccount: ci/deployer}}
    - {name: nobody, as: {user: eve}, expect: {verdict: Refused, message: 'User "eve" cannot create resource "configmaps"'}}
    - {name: an administrator}
`}, want: `
ok    rights  a.yaml    5 cases  0.00s
5 passed, 0 failed, 0 errors
`},
		"what no case touches": {args: []string{"--coverage"}, files: map[string]string{"a.yaml": suiteOf(pod + `
    - {name: admitted}
    - {name: refused, set: {metadata.name: db}, expect: {verdict: Refused}}
`), "b.yaml": suiteOf("  - {name: c, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}, expect: " +
			"{verdict: Admitted}}\n")}, want: `
ok    a  a.yaml    2 cases  0.00s
ok    b  b.yaml    1 case   0.00s
coverage: policies 1 of 1, validations 1 of 2, webhook rules 1 of 2, LimitRanges 1 of 1
    cluster.yaml:16  ValidatingAdmissionPolicy names validations[0] object.metadata.name != 'web': never violated, in 2 cases
    cluster.yaml:31  ValidatingWebhookConfiguration hooks pods.example.com rules[1] [DELETE] pods,configmaps: no case
3 passed, 0 failed, 0 errors
`},
		"flags for all, and of one": {args: []string{"--disable-admission-plugins=LimitRanger"},
			files: map[string]string{
				"a.yaml": suiteOf(pod + "    - {name: a, expect: {object: {spec: {containers: [{resources: {}}]}}}}\n" +
					"    - {name: b, expect: {object: {spec: {containers: [{resources: {limits: null}}]}}}}\n"),
				"b.yaml": strings.Replace(suiteOf(pod+"    - {name: r, expect: {verdict: Refused, by: AlwaysDeny}}\n"),
					"  state:", "  flags: [--enable-admission-plugins=AlwaysDeny]\n  state:", 1)},
			want: `
ok    a  a.yaml    2 cases  0.00s
ok    b  b.yaml    1 case   0.00s
3 passed, 0 failed, 0 errors
`},
		"some of them": {args: []string{"--run=^a$/pod/(one|t.*o)"}, files: map[string]string{
			"a.yaml": suiteOf(pod + "    - {name: one}\n    - {name: two}\n    - {name: three}\n"),
			"b.yaml": suiteOf(pod + "    - {name: one}\n"),
		}, want: `
ok    a  a.yaml    2 cases  0.00s
2 passed, 0 failed, 0 errors
`},
		"none of them": {args: []string{"--run=none"},
			files:  map[string]string{"a.yaml": suiteOf(pod + "    - {name: one}\n")},
			errors: "gatehouse: --run: no case matches \"none\"\n", code: 2},
		"what can't be judged, and what can": {files: map[string]string{
			"a.yaml": suiteOf(pod + "    - {name: kind, set: {kind: Pood}}\n    - {name: ok}\n"),
			"b.yaml": suiteOf("  - {nam: x}\n"),
			"c.yaml": strings.Replace(suiteOf(pod+"    - {name: ok}\n"), "state: [cluster.yaml]",
				"flags: [--enable-admission-plugins=AlwaysPullImage]", 1),
			"d.yaml": strings.Replace(suiteOf(pod+"    - {name: ok}\n"), "state: [cluster.yaml]",
				"flags: [--feature-gates=A=true]", 1),
			"e.yaml": strings.Replace(suiteOf(pod+"    - {name: ok}\n"), "[cluster.yaml]",
				"[{apiVersion: v1, kind: Pod, metadata: {name: p}}]", 1),
		}, code: 2, want: `
--- ERROR: a/pod/kind  a.yaml:10
    no matches for kind "Pood" in version "v1", did you mean "Pod"?
FAIL  a  a.yaml    2 cases  0.00s
--- ERROR: c  c.yaml:1
    enable-admission-plugins plugin "AlwaysPullImage" is unknown, did you mean "AlwaysPullImages"?
FAIL  c  c.yaml    1 case   0.00s
--- ERROR: d  d.yaml:1
    spec.flags: --feature-gates holds for the whole process: it is a flag of gatehouse test itself
FAIL  d  d.yaml    1 case   0.00s
--- ERROR: e  e.yaml:1
    spec.state: e.yaml:4: Pod p: Pod "p" is invalid: spec.containers: Required value
FAIL  e  e.yaml    1 case   0.00s
1 passed, 0 failed, 4 errors
`, errors: `gatehouse: b.yaml:6: unknown field "spec.cases[0].nam", did you mean "name"?
`},
		"a field that is misspelt is no refusal, unless the case is about it": {files: map[string]string{
			"a.yaml": suiteOf(pod + "    - {name: typo, set: {spec.nodName: a}, expect: {verdict: Refused}}\n" +
				"    - {name: meant, set: {spec.nodName: a}, expect: {verdict: Refused, message: spec.nodName}}\n"),
		}, code: 2, want: `
--- ERROR: a/pod/typo  a.yaml:10
    object: Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.nodName"
FAIL  a  a.yaml    2 cases  0.00s
1 passed, 0 failed, 1 error
`},
		"no suites": {files: map[string]string{}, code: 2,
			errors: "gatehouse: .: no suites in it: no document is of kind AdmissionTest\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, content := range test.files {
				write(t, file, content)
			}
			write(t, "cluster.yaml", cluster)
			stdout, stderr, code := runCommand(t, append([]string{"test", "--junit=report.xml"}, test.args...)...)
			stdout = tookTime.ReplaceAllString(generated.ReplaceAllString(stdout, `"d-…"`), "0.00s")
			stdout = regexp.MustCompile(`\[\{"image".*`).ReplaceAllString(stdout, "…")
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), stdout); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if stderr != test.errors || code != test.code {
				t.Errorf("exit code %d, %q; want %d, %q", code, stderr, test.code, test.errors)
			}
			wantJUnit(t, test.want, test.errors)
		})
	}
}

// wantJUnit wants a report with as many cases as the last line says, and an error for each line of what could not be read.
func wantJUnit(t *testing.T, printed, unread string) {
	t.Helper()
	var report struct {
		Tests  int `xml:"tests,attr"`
		Suites []struct {
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	data, err := os.ReadFile("report.xml")
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	passed, failed, errored := 0, 0, 0
	for _, s := range report.Suites {
		for _, c := range s.Cases {
			switch {
			case c.Failure != nil:
				failed++
			case c.Error != nil:
				errored++
			default:
				passed++
			}
		}
	}
	var want [3]int
	if lines := strings.Split(strings.TrimSpace(printed), "\n"); printed != "" {
		if _, err := fmt.Sscanf(lines[len(lines)-1], "%d passed, %d failed, %d error", &want[0], &want[1], &want[2]); err != nil {
			t.Fatal(err)
		}
	}
	want[2] += strings.Count(unread, "\n")
	if got := [3]int{passed, failed, errored}; got != want {
		t.Errorf("the JUnit report has %v passed, failed and errors, want %v", got, want)
	}
}

// A suite can have its webhooks asked at a local process, or taken to be down.
func TestSuiteWithWebhooks(t *testing.T) {
	needs.Server(t)
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		asked.Response = &admissionv1.AdmissionResponse{UID: asked.Request.UID, Allowed: asked.Request.Name != "p",
			Result: &metav1.Status{Message: "not with me"}, Warnings: []string{"it was asked"}}
		if err := json.NewEncoder(w).Encode(asked); err != nil {
			t.Error(err)
		}
	}))
	defer local.Close()
	t.Chdir(t.TempDir())
	write(t, "cluster.yaml", cluster)
	flags := func(flag, text string) string {
		return strings.Replace(text, "  state:", "  flags: ["+flag+"]\n  state:", 1)
	}
	write(t, "asked.yaml", flags("--webhook=hooks="+local.URL, suiteOf(pod+`
    - {name: refused, expect: {verdict: Refused, by: ValidatingAdmissionWebhook/pods.example.com, message: not with me}}
    - {name: warned, set: {metadata.name: q}, expect: {warnings: [it was asked], webhooks: [pods.example.com]}}
`)))
	write(t, "down.yaml", flags("--webhooks=fail", suiteOf(pod+`
    - {name: refused, expect: {verdict: Refused, by: ValidatingAdmissionWebhook, message: taken to be down}}
`)))
	if stdout, stderr, code := runCommand(t, "test", "--allow-calls"); code != 0 {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	const want = "asked.yaml:4: spec.flags: --webhook="
	if stdout, _, code := runCommand(t, "test"); code != 2 || !strings.Contains(stdout, want) ||
		!strings.Contains(stdout, "give --allow-calls, or this flag, to gatehouse test") {
		t.Errorf("exit code %d, %s, want %s", code, stdout, want)
	}
}

// What was interrupted has not passed.
func TestInterrupted(t *testing.T) {
	needs.Server(t)
	t.Chdir(t.TempDir())
	write(t, "cluster.yaml", cluster)
	write(t, "a.yaml", suiteOf(pod+"    - {name: one}\n"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"test"}, {"review", "--filename=cluster.yaml"}} {
		var out bytes.Buffer
		if code := Run(ctx, compiled.Plugins, args, &out, &out); code != ExitUsage ||
			out.String() != "gatehouse: interrupted before it was done\n" {
			t.Errorf("%v: exit code %d, %q", args, code, &out)
		}
	}
}

// What a suite expects of objects is what came out, once it is updated; in machines' words, too.
func TestUpdateSuite(t *testing.T) {
	needs.Server(t)
	t.Chdir(t.TempDir())
	write(t, "cluster.yaml", cluster)
	write(t, "a.yaml", suiteOf(`
  - name: pod # of the shop
    object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
    expect:
      verdict: Admitted
      object:
        spec:
          priority: 1 # none
    table:
    - {name: one}
    - {name: whole, expect: {object: {}}}
`))
	if stdout, stderr, code := runCommand(t, "test", "--update"); code != 0 || !strings.Contains(stdout, "2 updated") {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	data, err := os.ReadFile("a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"- name: pod # of the shop\n",
		"          priority: 0 # none\n    table:\n    - {name: one}\n", "qosClass: Burstable",
		"name: kube-root-ca.crt"} {
		if !strings.Contains(string(data), part) {
			t.Errorf("%q is missing in\n%s", part, data)
		}
	}
	if strings.Contains(string(data), "kube-api-access") || strings.Contains(string(data), "uid") {
		t.Errorf("what differs each time is in\n%s", data)
	}
	stdout, stderr, code := runCommand(t, "test", "-o", "json")
	if code != 0 || !strings.Contains(stdout, `"passed": 2`) ||
		!strings.Contains(stdout, `"kind": "AdmissionTestReport"`) {
		t.Errorf("then exit code %d, %s%s", code, stdout, stderr)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Clean(file), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
