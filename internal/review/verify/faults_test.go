// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/verify"
)

// faulty are a policy, a mutating one, and a webhook for config maps; each has what can't be
// evaluated where the config map has its label.
const faulty = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: validation}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
    objectSelector: {matchLabels: {a: validation}}
  validations: [{expression: "object.data.nope == 'a'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: validation}
spec: {policyName: validation, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ignored}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
    objectSelector: {matchLabels: {a: ignored}}
  validations: [{expression: "object.data.nope == 'a'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ignored}
spec: {policyName: ignored, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: condition}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
    objectSelector: {matchLabels: {a: condition}}
  matchConditions: [{name: c, expression: "object.data.nope == 'a'"}]
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: condition}
spec: {policyName: condition, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: param}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
    objectSelector: {matchLabels: {a: param}}
  validations: [{expression: "params != null"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: param}
spec:
  policyName: param
  validationActions: [Deny]
  paramRef: {name: none, namespace: default, parameterNotFoundAction: Deny}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mutation}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
    objectSelector: {matchLabels: {a: mutation}}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/b', value: object.data.nope}]"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mutation}
spec: {policyName: mutation}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: condition.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  objectSelector: {matchLabels: {a: webhook-condition}}
  matchConditions: [{name: c, expression: "object.data.nope == 'a'"}]
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
- name: closed.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  objectSelector: {matchLabels: {a: webhook}}
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
- name: open.example.com
  failurePolicy: Ignore
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  objectSelector: {matchLabels: {a: webhook-ignored}}
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
`

// A case that comes to its verdict only since something could not be evaluated, or asked, fails,
// unless it says so.
func TestFaults(t *testing.T) {
	faults := []struct{ name, flags, verdict, want string }{
		{"validation", "", "Refused", "ValidatingAdmissionPolicy/validation: expression 'object.data.nope == 'a'' " +
			"resulted in error: no such key: nope"},
		{"ignored", "", "Admitted", "ValidatingAdmissionPolicy/ignored: expression 'object.data.nope == 'a'' " +
			"resulted in error: no such key: nope"},
		{"condition", "", "Refused", "ValidatingAdmissionPolicy/condition: "},
		{"param", "", "Refused", "ValidatingAdmissionPolicy/param: failed to configure binding: no params found for " +
			"policy binding with `Deny` parameterNotFoundAction"},
		{"mutation", "", "Refused", "MutatingAdmissionPolicy/mutation: "},
		{"webhook-condition", "", "Refused", "ValidatingAdmissionWebhook/condition.example.com: "},
		{"webhook", "--webhooks=ask", "Refused", "ValidatingAdmissionWebhook/closed.example.com: "},
		{"webhook-ignored", "--webhooks=ask", "Admitted", "ValidatingAdmissionWebhook/open.example.com: "},
	}
	object := func(label string) string {
		return "object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: " + label +
			"}}, data: {b: c}}"
	}
	files := map[string]string{"state/faulty.yaml": faulty}
	for _, f := range faults {
		files["suites/"+f.name+".yaml"] = strings.Replace(suiteWith(f.flags,
			"  - {name: silent, "+object(f.name)+", expect: {verdict: "+f.verdict+"}}\n"+
				"  - {name: other, "+object(f.name)+", expect: {verdict: "+f.verdict+", error: something else}}\n"+
				"  - {name: told, "+object(f.name)+", expect: {verdict: "+f.verdict+", error: \""+f.want+"\"}}\n"+
				"  - {name: fine, "+object("none")+", expect: {verdict: Admitted, error: \""+f.want+"\"}}\n"),
			"  cases:", "  state: [../state]\n  cases:", 1)
	}
	// That webhooks are down is what is asked for here.
	files["suites/z.yaml"] = strings.Replace(suiteWith("--webhooks=fail",
		"  - {name: closed, "+object("webhook")+", expect: {verdict: Refused}}\n"+
			"  - {name: open, "+object("webhook-ignored")+", expect: {verdict: Admitted}}\n"),
		"  cases:", "  state: [../state]\n  cases:", 1)
	folder(t, files)
	report, err := judged(t, t.Context(), verify.Options{Allowed: verify.Allowed{Calls: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Suites {
		var want string
		for _, f := range faults {
			if f.name == s.Name {
				want = f.want
			}
		}
		for _, c := range s.Cases {
			var text string
			for _, d := range c.Differences {
				text += d.Field + " " + d.Got.(string)
			}
			switch {
			case s.Name == "z" || c.Name == "told":
				if c.Outcome != verify.Passed {
					t.Errorf("%s/%s: %s: %s", s.Name, c.Name, c.Outcome, c.Details())
				}
			case c.Name == "fine":
				if diff := cmp.Diff("error none", text); diff != "" || c.Outcome != verify.Failed {
					t.Errorf("%s/%s, which expects %q: %s: -want +got:\n%s", s.Name, c.Name, want, c.Outcome, diff)
				}
			case s.Name == "webhook" && c.Name == "silent": // it could not be judged
				if c.Outcome != verify.Error || !strings.Contains(c.Error, "connection refused") {
					t.Errorf("%s/%s: %s: %s", s.Name, c.Name, c.Outcome, c.Details())
				}
			case c.Outcome != verify.Failed || !strings.HasPrefix(text, "error "+want):
				t.Errorf("%s/%s: %s: %s, want %q", s.Name, c.Name, c.Outcome, c.Details(), want)
			}
		}
	}
}

// A field that none of a policy's kinds has is told once, and one that only some of them have
// isn't.
func TestPolicyWarnings(t *testing.T) {
	policy := func(name, kind string) string {
		return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    resourceRules:
    - {operations: [CREATE], apiGroups: [apps, example.com], apiVersions: [v1], resources: [` + kind + `]}
  validations:
  - expression: object.spec.replicas <= 3
  - expression: "!has(object.spec.template.spec.hostNetwork) || object.spec.template.spec.hostNetwrk == false"
`
	}
	const cases = "  - {name: c, " + configMap + ", expect: {verdict: Admitted}}\n"
	folder(t, map[string]string{
		"state/policy.yaml":        policy("tc", "deployments, daemonsets"),
		"state/static/policy.yaml": policy("tc.static.k8s.io", "deployments"),
		"state/config.yaml": `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionPolicy
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ValidatingAdmissionPolicyConfiguration
    staticManifestsDir: static
`,
		"a.yaml": strings.Replace(suiteWith("", cases), "  cases:", "  state: [state/policy.yaml]\n  cases:", 1),
		"b.yaml": suiteWith("", strings.Replace(cases, "expect", "state: [state/policy.yaml], expect", 1)),
		"c.yaml": suiteWith("--admission-control-config-file=state/config.yaml", cases),
	})
	report, err := judged(t, t.Context(), verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Write(&out, "", ""); err != nil {
		t.Fatal(err)
	}
	const want = `warning: state/policy.yaml:1: ValidatingAdmissionPolicy tc: spec.validations[1].expression: ` +
		`undefined field 'hostNetwrk' of apps/v1 DaemonSet, apps/v1 Deployment
ok    a  a.yaml    1 case   0.00s
ok    b  b.yaml    1 case   0.00s
warning: state/static/policy.yaml:1: ValidatingAdmissionPolicy tc.static.k8s.io: ` +
		`spec.validations[1].expression: undefined field 'hostNetwrk' of apps/v1 Deployment
ok    c  c.yaml    1 case   0.00s
3 passed, 0 failed, 0 errors
`
	if diff := cmp.Diff(want, seconds.ReplaceAllString(out.String(), "0.00s")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

var seconds = regexp.MustCompile(`\d+\.\d\ds`)
