// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
)

// event returns a line of an audit log: a request for a ConfigMap or a Pod, whose object has more fields.
func event(id, user, verb, resource, name, object string, code int) string {
	uri := "/api/v1/namespaces/shop/" + resource
	if verb != "create" {
		uri += "/" + name
	}
	kind := map[string]string{"configmaps": "ConfigMap", "pods": "Pod"}[resource]
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":%q,"stage":"ResponseComplete",`+
		`"requestURI":%q,"verb":%q,"user":{"username":%q,"groups":["system:authenticated"]},"userAgent":"tests",`+
		`"objectRef":{"resource":%q,"namespace":"shop","name":%q,"apiVersion":"v1"},"responseStatus":{"code":%d,"message":"refused by it"},`+
		`"requestObject":{"kind":%q,"apiVersion":"v1","metadata":{"name":%q}%s},"requestReceivedTimestamp":"2026-11-02T10:00:00.000000Z",`+
		`"stageTimestamp":"2026-11-02T10:00:0%d.000000Z","annotations":{"authorization.k8s.io/decision":"allow"}}`,
		id, uri, verb, user, resource, name, code, kind, name, object, len(id)) + "\n"
}

// validating returns a policy, and a binding, that refuses what isn't so.
func validating(name, resource, expression, more string) string {
	return fmt.Sprintf(`
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [%[2]s], operations: ["*"]}]
    %[4]s
  validations: [{expression: %[3]q}]
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
---`, name, resource, expression, more)
}

// replayed are the parts of a report in JSON that tests look at.
type replayedReport struct {
	Notes   []string
	Errors  []struct{ Message string }
	Summary struct {
		Writes, Judged, Refused, Admitted, Changed, Known int
		NotJudged                                         []struct{ Reason string }
		Interrupted                                       bool
	}
	Results []struct {
		AuditID, Verdict, Recorded, Unjudged string
		Differs                              bool
		Policies                             []struct{ Plugin, Name string }
		Changes                              []struct{ Path string }
	}
}

// replayJSON runs gatehouse replay -o json.
func replayJSON(t *testing.T, args ...string) (replayedReport, int) {
	t.Helper()
	stdout, stderr, code := runCommand(t, append([]string{"replay", "-o", "json"}, args...)...)
	var report replayedReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	return report, code
}

// ids returns the audit IDs of the results that differ with a verdict, or that were unjudged for a reason.
func (r *replayedReport) ids(verdict string) []string {
	ids := []string{}
	for _, result := range r.Results {
		if result.Differs && result.Verdict == verdict || result.Unjudged != "" && result.Unjudged == verdict {
			ids = append(ids, result.AuditID)
		}
	}
	return ids
}

func TestReplay(t *testing.T) {
	needs.Server(t)
	log := event("a", "jane", "create", "configmaps", "one", `,"data":{"k":"1"}`, 201) +
		event("b", "joe", "create", "configmaps", "two", "", 201) +
		event("c", "joe", "create", "configmaps", "three", "", 403) +
		event("d", "joe", "create", "configmaps", "four", "", 409) +
		event("e", "joe", "update", "configmaps", "old", "", 200) +
		event("f", "jane", "create", "pods", "host", `,"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}`, 201) +
		strings.Replace(event("g", "jane", "create", "configmaps", "bare", "", 201), `"level":"Request"`, `"level":"Metadata"`, 1)
	inFolder(t, map[string]string{
		"audit.log": log,
		"data.yaml": validating("data", "configmaps", "has(object.data)", ""),
		"gold.yaml": validating("gold", "configmaps", "has(object.data)", "namespaceSelector: {matchLabels: {tier: gold}}"),
		"jane.yaml": validating("data", "configmaps", "request.userInfo.username == 'jane'", ""),
		"gold-shop.yaml": `{kind: Namespace, apiVersion: v1, metadata: {name: shop, labels: {tier: gold}}}
---
{kind: ServiceAccount, apiVersion: v1, metadata: {name: default, namespace: shop}}
`,
		"mutating.yaml": `kind: MutatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: label}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}}]
---
{kind: MutatingAdmissionPolicyBinding, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: label}, spec: {policyName: label}}
`,
		"before.yaml": `{kind: Namespace, apiVersion: v1, metadata: {name: shop}}
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: old, namespace: shop, uid: u, resourceVersion: "7"}, data: {k: "0"}}
`,
		"shrinking.yaml": validating("shrinking", "configmaps", "oldObject == null || !has(oldObject.data) || has(object.data)", ""),
		"broken.yaml":    validating("broken", "configmaps", "has(object.data", ""),
	})
	for _, test := range []struct {
		name                  string
		args, refused         []string
		unjudged              map[string][]string
		changed, code, writes int
	}{
		{name: "a policy", args: []string{"-f=data.yaml"}, refused: []string{"b"}, code: 1, writes: 5,
			unjudged: map[string][]string{"unknown-base": {"e"}, "metadata-level": {"g"}, "refused-elsewhere": {}}},
		{name: "a share that is too small", args: []string{"-f=data.yaml", "--min-judged=95"}, refused: []string{"b"}, code: 2, writes: 5},
		{name: "an unknown namespace", args: []string{"-f=gold.yaml"}, refused: []string{}, code: 2, writes: 5,
			unjudged: map[string][]string{"unknown-namespace": {"a", "b", "c"}}},
		{name: "a namespace of the state", args: []string{"-f=gold.yaml", "--state=gold-shop.yaml"}, refused: []string{"b"}, code: 1,
			writes: 5},
		{name: "an object before the log", args: []string{"-f=shrinking.yaml", "--state=before.yaml"}, refused: []string{"e"}, code: 1,
			writes: 5, unjudged: map[string][]string{"unknown-base": {}}},
		{name: "against another", args: []string{"-f=jane.yaml", "--against=data.yaml"}, refused: []string{}, code: 0, writes: 5},
		{name: "against itself", args: []string{"-f=data.yaml", "--against=data.yaml"}, refused: []string{}, writes: 5},
		{name: "a level", args: []string{"--pod-security=baseline", "--state=gold-shop.yaml"}, refused: []string{"f"}, code: 1, writes: 1},
		{name: "a level of a namespace", args: []string{"--pod-security=shop=restricted", "--state=gold-shop.yaml"},
			refused: []string{"f"}, code: 1, writes: 1},
		{name: "a plugin", args: []string{"--enable-admission-plugins=AlwaysDeny", "--state=gold-shop.yaml"},
			refused: []string{"a", "b", "f"}, code: 1, writes: 6},
		{name: "a mutation", args: []string{"-f=mutating.yaml"}, refused: []string{}, changed: 2, code: 1, writes: 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			report, code := replayJSON(t, append([]string{"audit.log", "--show=all"}, test.args...)...)
			refused := report.ids("Refused")
			if !slices.Equal(refused, test.refused) || code != test.code || report.Summary.Writes != test.writes ||
				report.Summary.Changed != test.changed || report.Summary.Admitted != 0 {
				t.Errorf("it ended with %d, refused %q: %+v", code, refused, report)
			}
			for reason, ids := range test.unjudged {
				if got := report.ids(reason); !slices.Equal(got, ids) {
					t.Errorf("%s: %q, want %q", reason, got, ids)
				}
			}
		})
	}
	t.Run("a baseline", func(t *testing.T) {
		stdout, _, _ := runCommand(t, "replay", "audit.log", "-f=data.yaml", "-o=json")
		if err := os.WriteFile("before.json", []byte(stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		if report, code := replayJSON(t, "audit.log", "-f=data.yaml", "--baseline=before.json"); code != 0 ||
			report.Summary.Known != 1 || len(report.Results) != 0 {
			t.Errorf("it ended with %d: %+v", code, report)
		}
	})
	t.Run("a truncated last line", func(t *testing.T) {
		if err := os.WriteFile("cut.log", []byte(log+log[:200]), 0o600); err != nil {
			t.Fatal(err)
		}
		report, code := replayJSON(t, "cut.log", "-f=data.yaml")
		if code != 1 || report.Summary.Refused != 1 || !strings.Contains(fmt.Sprint(report.Notes), "cut.log") {
			t.Errorf("it ended with %d: %+v", code, report)
		}
	})
	t.Run("a broken policy", func(t *testing.T) {
		if _, stderr, code := runCommand(t, "replay", "audit.log", "-f=broken.yaml"); code != 2 ||
			!strings.Contains(stderr, "broken.yaml:2") {
			t.Errorf("it ended with %d: %s", code, stderr)
		}
	})
}

// With the state at the beginning of the log, requests count in quotas, in their order.
func TestReplayQuotas(t *testing.T) {
	needs.Server(t)
	const objects = `{kind: Namespace, apiVersion: v1, metadata: {name: shop}}
---
{kind: ServiceAccount, apiVersion: v1, metadata: {name: default, namespace: shop}}
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: zero, namespace: shop, uid: u, resourceVersion: "7"}}
---
`
	const quota = `{kind: ResourceQuota, apiVersion: v1, metadata: {name: few, namespace: shop}, spec: {hard: {%s}}}`
	pod := func(id, name, cpu string, code int) string {
		return event(id, "jane", "create", "pods", name,
			`,"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"`+cpu+`"}}}]}`, code)
	}
	dry := strings.Replace(event("d", "jane", "create", "configmaps", "dry", "", 201), `/configmaps"`, `/configmaps?dryRun=All"`, 1)
	inFolder(t, map[string]string{
		"objects.yaml": objects,
		"audit.log": event("a", "jane", "create", "configmaps", "one", "", 201) +
			event("b", "jane", "create", "configmaps", "two", "", 201) +
			event("c", "jane", "update", "configmaps", "two", "", 200) + dry +
			event("e", "jane", "delete", "configmaps", "zero", "", 200) +
			event("f", "jane", "create", "configmaps", "three", "", 201) +
			event("g", "jane", "create", "configmaps", "four", "", 201) +
			event("h", "jane", "create", "configmaps", "one", "", 409) +
			pod("i", "p", "2", 201) + pod("j", "q", "1", 403) + pod("k", "r", "1", 403),
		"few.yaml": fmt.Sprintf(quota, "count/configmaps: 2"),
		"cpu.yaml": fmt.Sprintf(quota, "requests.cpu: 3"),
		"had.yaml": objects + fmt.Sprintf(quota, "requests.cpu: 2"),
		"stated.yaml": objects + strings.Replace(fmt.Sprintf(quota, "requests.cpu: 9"), "}}}",
			"}}, status: {hard: {requests.cpu: 9}, used: {requests.cpu: 8}}}", 1),
		"free.yaml": fmt.Sprintf(quota, "pods: 100"),
	})
	for _, test := range []struct {
		name, candidate, state string
		refused, admitted      []string
		unjudged               map[string][]string
		code                   int
		note                   string
	}{
		{name: "a count", candidate: "few.yaml", state: "objects.yaml", refused: []string{"b", "d", "g"}, admitted: []string{}, code: 1,
			unjudged: map[string][]string{"not-made": {"c"}}},
		{name: "a wider quota", candidate: "cpu.yaml", state: "had.yaml", refused: []string{}, admitted: []string{"j"}, code: 1},
		{name: "a state that lacks objects", candidate: "free.yaml", state: "stated.yaml", refused: []string{}, admitted: []string{},
			unjudged: map[string][]string{"unknown-usage": {"i", "j", "k"}}, code: 2, note: "requests.cpu=0, not 8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			report, code := replayJSON(t, "audit.log", "--show=all", "-f="+test.candidate, "--state="+test.state, "--state-at=start")
			refused, admitted := report.ids("Refused"), report.ids("Admitted")
			if !slices.Equal(refused, test.refused) || !slices.Equal(admitted, test.admitted) || code != test.code ||
				!strings.Contains(fmt.Sprint(report.Notes), test.note) {
				t.Errorf("it ended with %d, refused %q, and admitted %q: %+v", code, refused, admitted, report)
			}
			for reason, ids := range test.unjudged {
				if got := report.ids(reason); !slices.Equal(got, ids) {
					t.Errorf("%s: %q, want %q", reason, got, ids)
				}
			}
		})
	}
}

// A webhook of the candidate that isn't asked leaves requests unjudged; one that is decides.
func TestReplayWebhook(t *testing.T) {
	needs.Server(t)
	asked := 0
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		var asks struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&asks); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false}}`,
			asks.Request.UID)
	}))
	defer hook.Close()
	inFolder(t, map[string]string{
		"audit.log": event("a", "jane", "create", "configmaps", "one", "", 201) +
			event("b", "jane", "create", "pods", "p", `,"spec":{"containers":[{"name":"c","image":"i"}]}`, 201),
		"hook.yaml": `{kind: ValidatingWebhookConfiguration, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: hook},
webhooks: [{name: hook.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1"},
rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}]}`,
	})
	report, code := replayJSON(t, "audit.log", "-f=hook.yaml", "--show=all")
	if ids := report.ids("webhook-not-asked"); code != 2 || !slices.Equal(ids, []string{"a"}) || asked > 0 {
		t.Errorf("it ended with %d, and asked %d times: %+v", code, asked, report)
	}
	report, code = replayJSON(t, "audit.log", "-f=hook.yaml", "--webhook=hook="+hook.URL, "--show=all")
	if ids := report.ids("Refused"); code != 1 || !slices.Equal(ids, []string{"a"}) || asked == 0 {
		t.Errorf("it ended with %d, and asked %d times: %+v", code, asked, report)
	}
}

func TestReplayUsage(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"audit.log": "", "empty.yaml": "# nothing", "other.json": `{"kind": "Review"}`,
		"decisions.log": `{"apiVersion": "decisions.gatehouse.dev/v1alpha1", "kind": "Decision"}` + "\n",
		"reads.log":     strings.Replace(event("a", "jane", "list", "configmaps", "", "", 200), `"requestObject"`, `"other"`, 1),
		"cut.log":       event("a", "jane", "create", "pods", "p", "", 201)[:200],
		"policy.yaml":   validating("p", "pods", "true", ""), "quota.yaml": "{kind: ResourceQuota, apiVersion: v1, " +
			"metadata: {name: few}, spec: {hard: {pods: 2}}}"})
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-f=policy.yaml"}, "nothing to replay: name audit logs"},
		{[]string{"audit.log"}, "no candidate: name policies with -f"},
		{[]string{"missing.log", "-f=policy.yaml"}, "missing.log"},
		{[]string{"audit.log", "-f=missing.yaml"}, "--filename: missing.yaml"},
		{[]string{"audit.log", "-f=quota.yaml"}, "quota.yaml:1: ResourceQuota few: a quota can be tried only on all requests since"},
		{[]string{"audit.log", "-f=quota.yaml", "--state=policy.yaml"}, "--state-at=start"},
		{[]string{"audit.log", "-f=quota.yaml", "--state-at=start"}, "--state-at=start: name the state at the beginning"},
		{[]string{"audit.log", "-f=quota.yaml", "--state-at=start", "--state=policy.yaml", "--context=c"},
			"leave out --context and --kubeconfig"},
		{[]string{"audit.log", "-f=quota.yaml", "--state-at=then"}, `--state-at: "then" is neither start nor now`},
		{[]string{"audit.log", "-f=quota.yaml", "--state-at=start", "--state=policy.yaml", "--disable-admission-plugins=ResourceQuota"},
			"quota.yaml:1: ResourceQuota few: a quota limits nothing without the plugin"},
		{[]string{"audit.log", "-f=empty.yaml"}, "--filename: there are no objects in empty.yaml"},
		{[]string{"-", "-f=-"}, "the standard input (-) can be read once"},
		{[]string{"audit.log", "-f=policy.yaml", "--current"}, "--current: the candidate is what the cluster has already"},
		{[]string{"audit.log", "-f=policy.yaml", "-o=xml"}, `--output: "xml" is none of json`},
		{[]string{"audit.log", "-f=policy.yaml", "--show=some"}, `--show: "some" is neither differences nor all`},
		{[]string{"audit.log", "-f=policy.yaml", "--min-judged=101"}, "--min-judged: 101 is not a percentage"},
		{[]string{"audit.log", "-f=policy.yaml", "--output-dir=x"}, "--output-dir needs -o openreports"},
		{[]string{"audit.log", "--pod-security=strict"}, `--pod-security: "strict" is neither LEVEL nor NAMESPACE=LEVEL`},
		{[]string{"audit.log", "-f=policy.yaml", "--pod-security-override"}, "--pod-security-override is for a level of all namespaces"},
		{[]string{"audit.log", "-f=policy.yaml", "--baseline=missing.json"}, "--baseline missing.json"},
		{[]string{"audit.log", "-f=policy.yaml", "--baseline=other.json"}, "--baseline other.json"},
		{[]string{"audit.log", "-f=policy.yaml"}, "gatehouse: no recorded requests in audit.log: there is nothing in it\n"},
		{[]string{"decisions.log", "-f=policy.yaml"}, "no recorded requests in decisions.log: decisions.log:1: the line is neither an " +
			"audit event nor an AdmissionReview, of a version that is known: it has kind Decision of decisions.gatehouse.dev/v1alpha1\n"},
		{[]string{"cut.log", "-f=policy.yaml"}, "no recorded requests in cut.log: cut.log:1: the last line isn't complete"},
	} {
		stdout, stderr, code := runCommand(t, append([]string{"replay"}, test.args...)...)
		if code != review.ExitFailed || stdout != "" || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "interrupted") {
			t.Errorf("%q: it ended with %d, and said %q%q; want %q", test.args, code, stdout, stderr, test.want)
		}
	}
	// A log that has no write is read, and nothing of it is judged.
	if report, code := replayJSON(t, "reads.log", "-f=policy.yaml"); code != 2 || len(report.Errors) != 1 ||
		report.Errors[0].Message != "nothing was judged: none of 1 record is of a write that admission decided" {
		t.Errorf("a log of reads: it ended with %d: %+v", code, report)
	}
}
