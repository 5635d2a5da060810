// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

// auditInputs are files with objects and candidates.
func auditInputs() map[string]string {
	const policies = "apiVersion: admissionregistration.k8s.io/v1, "
	return map[string]string{
		"objects.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, uid: "1"}, spec: {containers: [{name: c, image: i, resources: {limits: {memory: 512Mi}, requests: {memory: 512Mi}}}]}}
`,
		"defaults.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: d, namespace: shop}, spec: {limits: [{type: Container, default: {memory: 512Mi}}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: "2"}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "i:1"}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, uid: "3"}, spec: {containers: [{name: c, image: "i:1"}]}}
`,
		"labelled.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: privileged}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: farm}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: farm}, spec: {containers: [{name: c, image: i}]}}
`,
		"audit.log": event("a", "jane", "create", "pods", "host",
			`,"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i","resources":{"limits":{"memory":"512Mi"}}}]}`, 201),
		"maximum.yaml":    `{apiVersion: v1, kind: LimitRange, metadata: {name: new, namespace: shop}, spec: {limits: [{type: Container, max: {memory: 256Mi}}]}}`,
		"restricted.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: restricted}}}`,
		"class.yaml":      `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 5, globalDefault: true}`,
		"default.yaml":    `{apiVersion: v1, kind: LimitRange, metadata: {name: d, namespace: shop}, spec: {limits: [{type: Container, default: {memory: 256Mi}}]}}`,
		"quota.yaml":      `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, spec: {hard: {limits.memory: 4Gi}}}`,
		"settings.yaml":   `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}`,
		"other.yaml":      `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: pay}}}`,
		"unbound.yaml":    strings.Split(validating("team", "pods", "false", ""), "---")[0],
		"elsewhere.yaml": validating("team", "pods", "false", "") + `
{` + policies + `kind: ValidatingAdmissionPolicyBinding, metadata: {name: lost}, spec: {policyName: tea, validationActions: [Deny]}}`,
		"lost.yaml":     `{` + policies + `kind: ValidatingAdmissionPolicyBinding, metadata: {name: lost}, spec: {policyName: tea, validationActions: [Deny]}}`,
		"singular.yaml": validating("one", "pod", "false", ""),
		"params.yaml": `{` + policies + `kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {paramKind: {apiVersion: v1, kind: ConfigMap},
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}, validations: [{expression: "false"}]}}
---
{` + policies + `kind: ValidatingAdmissionPolicyBinding, metadata: {name: p}, spec: {policyName: p, validationActions: [Deny],
paramRef: {name: settings, namespace: shop, parameterNotFoundAction: Allow}}}`,
		"three.yaml": `{` + policies + `kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE, UPDATE]}]}, validations: [
{expression: "false", message: first reason}, {expression: "'x' in object.metadata.?labels.orValue({})", messageExpression: "'second reason'"}, {expression: "true"}]}}
---
{` + policies + `kind: ValidatingAdmissionPolicyBinding, metadata: {name: p}, spec: {policyName: p, validationActions: [Deny]}}`,
	}
}

// A candidate is judged by the plugins that read it. One that nothing reads, or that can't act, is an error, and never an
// all-clear.
func TestAuditCandidates(t *testing.T) {
	needs.Server(t)
	inFolder(t, auditInputs())
	for _, test := range []struct {
		name, args string
		code       int
		want       []string
		not        string
	}{
		{"a LimitRange", "audit objects.yaml -f=maximum.yaml", 1, []string{"1 would be refused", "by new (LimitRanger)"}, ""},
		{"a level in a Namespace", "audit objects.yaml -f=restricted.yaml", 1, []string{"of 1 object", "1 object by PodSecurity"}, ""},
		{"a PriorityClass", "audit defaults.yaml -f=class.yaml", 1, []string{"2 would be changed", "changed   2 objects by Priority\n",
			"- spec.priority: 0\n", "+ spec.priority: 5\n", "Deployment  its Pod  web"}, "by LimitRanger"},
		{"another default", "audit defaults.yaml -f=default.yaml", 1, []string{"2 would be changed", "2 objects by LimitRanger\n",
			"limits.memory: 512Mi\n", "limits.memory: 256Mi\n", "Deployment  its Pod  web"}, "ServiceAccount"},
		{"a quota and a default", "audit defaults.yaml -f=quota.yaml", 0, []string{"0 would be refused"}, ""},
		{"all violations", "audit objects.yaml -f=three.yaml", 1, []string{"1 would be refused", "first reason", "second reason",
			"of the refused, 1 also when updated, 0 only when created"}, ""},
		{"what nothing reads", "audit objects.yaml -f=settings.yaml", 2, []string{"nothing of the candidate can act",
			"settings.yaml:1: ConfigMap settings: nothing reads it"}, "would be refused"},
		{"a Namespace that nothing reads", "audit objects.yaml -f=other.yaml", 2, []string{"Namespace shop: nothing reads it"}, ""},
		{"a part that nothing reads", "audit objects.yaml -f=three.yaml,settings.yaml", 1, []string{"1 would be refused",
			"ConfigMap settings: nothing reads it"}, ""},
		{"no binding", "audit objects.yaml -f=unbound.yaml", 2, []string{"policy-unbound of gatehouse lint"}, "would be refused"},
		{"another policy", "audit objects.yaml -f=lost.yaml", 2, []string{"binding-policy of gatehouse lint"}, ""},
		{"one binding to another policy", "audit objects.yaml -f=elsewhere.yaml", 1, []string{"1 would be refused",
			"binding-policy of gatehouse lint"}, ""},
		{"a resource that doesn't exist", "audit objects.yaml -f=singular.yaml", 2, []string{"ValidatingAdmissionPolicy one: "}, ""},
		{"params that aren't there", "audit objects.yaml -f=params.yaml", 2, []string{"params-missing of gatehouse lint"}, ""},
		{"params that are", "audit objects.yaml -f=params.yaml,settings.yaml", 1, []string{"1 would be refused"}, "params-missing"},
		{"a level of an unknown namespace", "audit objects.yaml --pod-security=shopp=restricted", 2,
			[]string{"--pod-security: shopp=restricted: there is no namespace shopp, did you mean", "shop"}, "interrupted"},
		{"a level and labels", "audit labelled.yaml --pod-security=baseline", 0, []string{"0 would be refused",
			"a label for a Pod Security level, for which baseline isn't tried: 1 of", "--pod-security-override"}, ""},
		{"a level in spite of labels", "audit labelled.yaml --pod-security=baseline --pod-security-override", 1,
			[]string{"1 would be refused", "namespace shop"}, "isn't tried"},
		{"a LimitRange and a log", "replay audit.log -f=maximum.yaml", 1, []string{"by new (LimitRanger)"}, ""},
		{"a level and a log", "replay audit.log -f=restricted.yaml", 1, []string{"by PodSecurity"}, ""},
		{"no binding, and a log", "replay audit.log -f=unbound.yaml", 2, []string{"policy-unbound of gatehouse lint"}, "would have"},
		{"what nothing reads, and a log", "replay audit.log -f=settings.yaml", 2, []string{"nothing reads it"}, "would have"},
		{"no binding, reviewed", "review unbound.yaml", 0, []string{"policy-unbound of gatehouse lint"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := runCommand(t, strings.Fields(test.args)...)
			said := stdout + stderr
			if code != test.code || test.not != "" && strings.Contains(said, test.not) {
				t.Errorf("it ended with %d, want %d:\n%s", code, test.code, said)
			}
			for _, want := range test.want {
				if !strings.Contains(said, want) {
					t.Errorf("it doesn't say %q:\n%s", want, said)
				}
			}
		})
	}
}

// The share of a replay is that of the requests on which the candidate can act.
func TestReplayShare(t *testing.T) {
	needs.Server(t)
	inputs := auditInputs()
	for _, id := range []string{"m", "mm", "mmm"} {
		inputs["audit.log"] += strings.Replace(event(id, "jane", "create", "configmaps", id, "", 201), `"level":"Request"`,
			`"level":"Metadata"`, 1)
	}
	inputs["maps.yaml"] = validating("maps", "configmaps", "has(object.data)", "")
	inFolder(t, inputs)
	stdout, stderr, _ := runCommand(t, "replay", "audit.log", "-f=maps.yaml")
	if want := "of 3 writes that the candidate can act on (of 4) between "; !strings.HasPrefix(stdout, want) ||
		!strings.Contains(stdout, ", 0 judged (0.0 %)") {
		t.Errorf("it said %s%s; want %s", stdout, stderr, want)
	}
}
