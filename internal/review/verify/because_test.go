// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/verify"
)

// policyFor returns a policy that refuses everything that its rules and conditions match, and a binding.
func policyFor(name, rule, more, matchResources string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules:
    - %[2]s
  %[3]s
  validations:
  - expression: "false"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]%[4]s}
`, name, rule, more, matchResources)
}

// A case that isn't refused says why: what the server says of a policy that it left out, and of others what their rules
// and bindings lack.
func TestBecause(t *testing.T) {
	const configMaps = `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}`
	const pods = `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`
	const deployment = "object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, " +
		"selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, " +
		"spec: {containers: [{name: c, image: nginx}]}}}}"
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: nginx}]}}"
	for name, test := range map[string]struct{ state, fields, expect, want string }{
		"operation": {policyFor("p", configMaps, "", ""),
			configMap + "\n    state: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]", "verdict: Refused",
			"ValidatingAdmissionPolicy p: its rules have CREATE of configmaps, and not UPDATE"},
		"resource": {policyFor("p", configMaps, "", ""),
			"object: {apiVersion: v1, kind: Secret, metadata: {name: c}}", "verdict: Refused, by: ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicy p: its rules are for CREATE of configmaps, and not for CREATE of secrets"},
		"subresource": {policyFor("p", `{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [pods]}`, "", ""),
			"subresource: resize\n    object: " + pod + "\n    state: [" + pod + "]", "verdict: Refused",
			"ValidatingAdmissionPolicy p: its rules are for pods, and not for pods/resize"},
		"namespace": {policyFor("p", configMaps, "", ", matchResources: {namespaceSelector: {matchLabels: {a: b}}}"), configMap,
			"verdict: Refused",
			"ValidatingAdmissionPolicy p with binding p: namespaceSelector doesn't select the namespace"},
		"condition": {policyFor("p", configMaps, `matchConditions: [{name: never, expression: "false"}]`, ""), configMap,
			"verdict: Refused", `ValidatingAdmissionPolicy p with binding p: match condition "never" is false`},
		"rules of the binding": {policyFor("p", configMaps, "",
			`, matchResources: {resourceRules: [{operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: ["*"]}]}`),
			configMap, "verdict: Refused",
			"ValidatingAdmissionPolicy p with binding p: its rules have UPDATE of configmaps, and not CREATE"},
		"binding": {strings.Split(policyFor("p", configMaps, "", ""), "---")[0], configMap, "verdict: Refused",
			"ValidatingAdmissionPolicy p: no ValidatingAdmissionPolicyBinding names it"},
		"actions": {strings.Replace(policyFor("p", configMaps, "", ""), "Deny", "Warn", 1), configMap, "verdict: Refused",
			"ValidatingAdmissionPolicy p with binding p: failed expression: false (not refused: validationActions of the " +
				"binding are [Warn])"},
		"another one": {policyFor("p", configMaps, "", ""), configMap,
			"verdict: Refused, by: ValidatingAdmissionPolicy/q",
			"ValidatingAdmissionPolicy: ValidatingAdmissionPolicy refused the request before"},
		"misspelt plugin": {policyFor("p", configMaps, `matchConditions: [{name: never, expression: "false"}]`, ""), configMap,
			"verdict: Refused, by: ResourceQota",
			`ResourceQota: no plugin has this name, did you mean "ResourceQuota"?`},
		"plugin that isn't enabled": {policyFor("p", configMaps, `matchConditions: [{name: never, expression: "false"}]`, ""),
			configMap, "verdict: Refused, by: AlwaysDeny",
			"AlwaysDeny: this plugin isn't enabled: name it in the suite's flags, with --enable-admission-plugins"},
		"nothing": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}", configMap, "verdict: Refused",
			"nothing was asked that could refuse it: the state has no policy, webhook, quota or LimitRange for it"},
		"rules of a webhook": {`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: w.example.com
  clientConfig: {url: "https://localhost:1"}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]`, configMap,
			"verdict: Admitted, webhooks: [w.example.com]",
			"ValidatingAdmissionWebhook w.example.com: its rules have DELETE of configmaps, and not CREATE"},
		"operation on pods": {policyFor("p", strings.Replace(pods, "CREATE", "UPDATE", 1), "", ""), deployment,
			"verdict: Admitted, pods: {admitted: 0}",
			"ValidatingAdmissionPolicy p: its rules have UPDATE of pods, and not CREATE"},
		"condition on pods": {policyFor("p", pods, `matchConditions: [{name: never, expression: "false"}]`, ""), deployment,
			"verdict: Admitted, pods: {admitted: 1, by: ValidatingAdmissionPolicy/p}",
			`ValidatingAdmissionPolicy p with binding p: match condition "never" is false`},
		"another one on pods": {policyFor("p", pods, "", ""), deployment,
			"verdict: Admitted, pods: {admitted: 0, by: ResourceQuota/q}",
			"ResourceQuota: ValidatingAdmissionPolicy refused the request before"},
		"nothing on pods": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}", deployment,
			"verdict: Admitted, pods: {admitted: 0}",
			"nothing was asked that could refuse it: the state has no policy, webhook, quota or LimitRange for it"},
		"refused pods": {policyFor("p", pods, "", ""), deployment, "verdict: Admitted, pods: {admitted: 0}", ""},
		"passes":       {policyFor("p", configMaps, "", ""), configMap, "verdict: Refused, by: ValidatingAdmissionPolicy/p", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder(t, map[string]string{"state.yaml": test.state, "a.yaml": "apiVersion: gatehouse.dev/v1alpha1\n" +
				"kind: AdmissionTest\nspec:\n  state: [state.yaml]\n  cases:\n  - name: c\n    " + test.fields +
				"\n    expect: {" + test.expect + "}\n"})
			report, err := judged(t, t.Context(), verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := report.Suites[0].Cases[0]
			if diff := cmp.Diff(test.want, strings.Join(c.Because, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s\n%s: %s%s", diff, c.Outcome, c.Details(), report.Suites[0].Error)
			}
		})
	}
}

// A misspelt field of a custom resource is found, as lint finds it.
func TestMisspeltFieldOfCustomResource(t *testing.T) {
	folder(t, map[string]string{"state.yaml": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
---` + strings.Replace(policyFor("p", `{operations: [CREATE], apiGroups: [example.com], apiVersions: [v1], resources: [widgets]}`,
		"", ""), `"false"`, "object.spec.sise > 3", 1), "a.yaml": `
apiVersion: gatehouse.dev/v1alpha1
kind: AdmissionTest
spec:
  state: [state.yaml]
  cases:
  - name: c
    object: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 1}}
    expect: {verdict: Refused}
`})
	report, err := judged(t, t.Context(), verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "state.yaml:14: ValidatingAdmissionPolicy p: spec.validations[0].expression: undefined field 'sise' of " +
		"example.com/v1 Widget"
	if diff := cmp.Diff([]string{want}, report.Suites[0].Warnings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
