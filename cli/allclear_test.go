// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
)

// An error that leaves no report is in a report of every format.
func TestErrorsAreReported(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"empty.log": "", "policy.yaml": validating("p", "configmaps", "true", ""),
		"good.yaml": "{kind: ConfigMap, apiVersion: v1, metadata: {name: one, namespace: shop}}\n",
		"tabs.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata:\n\tname: two\n"})
	marks := map[string]string{"json": `"errors": [`, "yaml": "errors:", "junit": `errors="1"`,
		"sarif": `"executionSuccessful": false`, "github": "::error ", "markdown": "- error: ",
		"openreports": "result: error"}
	all := slices.Sorted(maps.Keys(marks))
	for _, test := range []struct {
		args, formats []string
		want          string
	}{
		{[]string{"replay", "empty.log", "-f=policy.yaml"}, []string{"junit"}, "no recorded requests in empty.log"},
		{[]string{"replay", "missing.log", "-f=policy.yaml"}, []string{"sarif"}, "missing.log"},
		{[]string{"audit", "good.yaml", "-f=missing.yaml"}, all, "missing.yaml"}, // before a server is started
		{[]string{"audit", "good.yaml", "tabs.yaml", "-f=policy.yaml"}, []string{"json", "github"},
			"found character that cannot start any token"},
	} {
		for _, format := range test.formats {
			mark := marks[format]
			stdout, stderr, code := runCommand(t, append(test.args, "-o="+format)...)
			if code != review.ExitFailed || !strings.Contains(stdout, test.want) || !strings.Contains(stdout, mark) ||
				!strings.Contains(stderr, test.want) {
				t.Errorf("%q -o %s: it ended with %d, and said %q and %q; want %q and %q", test.args, format, code, stdout, stderr,
					test.want, mark)
			}
		}
	}
	stdout, _, code := runCommand(t, "audit", "good.yaml", "tabs.yaml", "-f=policy.yaml")
	if code != review.ExitFailed || !strings.Contains(stdout, "of 1 object, 1 judged") ||
		!strings.Contains(stdout, "error: tabs.yaml:4: found character") {
		t.Errorf("it ended with %d, and said %q", code, stdout)
	}
}

// A definition that is being deleted can't be stored. Only its objects, and what policies judge by them, aren't judged.
func TestAuditOfEndingDefinition(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{
		"objects.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: stucks.s.io, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [customresourcecleanup.apiextensions.k8s.io]}
spec:
  group: s.io
  scope: Namespaced
  names: {plural: stucks, singular: stuck, kind: Stuck, listKind: StuckList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
{kind: Namespace, apiVersion: v1, metadata: {name: shop}}
---
{kind: Stuck, apiVersion: s.io/v1, metadata: {name: a, namespace: shop}}
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: one, namespace: shop}}
`,
		"maps.yaml":   validating("p", "configmaps", "has(object.data)", ""),
		"stucks.yaml": strings.Replace(validating("p", "stucks", "false", ""), `apiGroups: [""]`, "apiGroups: [s.io]", 1),
		"params.yaml": strings.NewReplacer("  matchConstraints:", "  paramKind: {apiVersion: s.io/v1, kind: Stuck}\n  matchConstraints:",
			"policyName: p", "policyName: p, paramRef: {name: a, namespace: shop, parameterNotFoundAction: Allow}").Replace(
			validating("p", "configmaps", "false", "")),
	})
	for _, test := range []struct {
		candidate       string
		refused, code   int
		unjudged, error string
	}{
		{candidate: "maps.yaml", refused: 1, code: 1},
		{candidate: "stucks.yaml", code: 2, unjudged: "unknown-state", error: "nothing was judged of 1 object"},
		{candidate: "params.yaml", code: 2, error: "nothing of the candidate can act"},
	} {
		stdout, stderr, code := runCommand(t, "audit", "objects.yaml", "-f="+test.candidate, "-o=json")
		var report replayedReport
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		s := report.Summary
		if code != test.code || s.Refused != test.refused || (len(s.NotJudged) == 1) != (test.unjudged != "") ||
			test.unjudged != "" && s.NotJudged[0].Reason != test.unjudged ||
			test.error != "" && (len(report.Errors) != 1 || !strings.HasPrefix(report.Errors[0].Message, test.error)) {
			t.Errorf("%s: it ended with %d: %+v", test.candidate, code, report)
		}
	}
}

// A change is judged with the object that the state has, also of a kind that isn't stored for other verdicts, and of
// the Scale of a custom resource.
func TestReplayOfChangesToState(t *testing.T) {
	needs.Server(t)
	patch := func(id, group, resource, subresource, name, body, response string) string {
		prefix := "/api"
		if group != "" {
			prefix = "/apis/" + group
		}
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":%q,"stage":"ResponseComplete",`+
			`"requestURI":"%s/v1/namespaces/shop/%s/%s/%s","verb":"patch","user":{"username":"jane","groups":["system:authenticated"]},`+
			`"objectRef":{"resource":%q,"subresource":%q,"namespace":"shop","name":%q,"apiGroup":%q,"apiVersion":"v1"},`+
			`"responseStatus":{"code":200},"requestObject":%s,"responseObject":%s,"requestReceivedTimestamp":"2026-11-02T10:00:00.000000Z",`+
			`"stageTimestamp":"2026-11-02T10:00:01.000000Z","annotations":{"authorization.k8s.io/decision":"allow"}}`+"\n",
			id, prefix, resource, name, subresource, resource, subresource, name, group, body, response)
	}
	scale := func(version string, replicas int) string {
		return fmt.Sprintf(`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"fast","namespace":"shop","uid":"w",`+
			`"resourceVersion":%q},"spec":{"replicas":%d},"status":{"replicas":2}}`, version, replicas)
	}
	inFolder(t, map[string]string{
		"state.yaml": `{kind: Namespace, apiVersion: v1, metadata: {name: shop}}
---
{kind: Service, apiVersion: v1, metadata: {name: web, namespace: shop, uid: s, resourceVersion: "5"}, spec: {ports: [{port: 80}], clusterIP: 10.0.0.9}}
---
{kind: ServiceAccount, apiVersion: v1, metadata: {name: robot, namespace: shop, uid: a, resourceVersion: "5"}}
---
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
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
---
{kind: Widget, apiVersion: example.com/v1, metadata: {name: fast, namespace: shop, uid: w, resourceVersion: "5"}, spec: {size: 2}, status: {size: 2}}
`,
		"audit.log": patch("service", "", "services", "", "web", `{"metadata":{"labels":{"a":"b"}}}`,
			`{"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"shop","uid":"s","resourceVersion":"6","labels":{"a":"b"}},`+
				`"spec":{"ports":[{"port":80}],"clusterIP":"10.0.0.9"}}`) +
			patch("account", "", "serviceaccounts", "", "robot", `{"metadata":{"labels":{"a":"b"}}}`,
				`{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"robot","namespace":"shop","uid":"a","resourceVersion":"6",`+
					`"labels":{"a":"b"}}}`) +
			patch("scale", "example.com", "widgets", "scale", "fast", `{"spec":{"replicas":9}}`, scale("6", 9)) +
			patch("again", "example.com", "widgets", "scale", "fast", `{"spec":{"replicas":3}}`, scale("7", 3)) +
			patch("other", "example.com", "widgets", "scale", "slow", `{"spec":{"replicas":9}}`, strings.ReplaceAll(scale("7", 3), "fast", "slow")),
		"policy.yaml": strings.NewReplacer(`apiGroups: [""]`, `apiGroups: ["*"]`, "[services]", "[services, serviceaccounts, widgets/scale]").Replace(
			validating("p", "services", "object.kind == 'Scale' ? object.spec.replicas < 5 || oldObject.spec.replicas != 2 : has(oldObject.metadata.labels)", "")),
	})
	report, code := replayJSON(t, "audit.log", "-f=policy.yaml", "--state=state.yaml", "--show=all")
	refused, unknown := report.ids("Refused"), report.ids("unknown-base")
	if want := []string{"service", "account", "scale"}; !slices.Equal(refused, want) || !slices.Equal(unknown, []string{"other"}) || code != 1 {
		t.Errorf("it ended with %d, refused %q, and didn't know the base of %q: %+v", code, refused, unknown, report)
	}
}

// A folder with a kustomization is judged as kustomize renders it. What can't be rendered is an error in every format.
func TestKustomizations(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{
		"app/kustomization.yaml":    "namePrefix: team-\nresources: [objects.yaml]\n",
		"app/objects.yaml":          "{kind: ConfigMap, apiVersion: v1, metadata: {name: one}}\n",
		"guard/kustomization.yaml":  "namePrefix: team-\nresources: [policy.yaml]\n",
		"guard/policy.yaml":         validating("p", "configmap", "true", ""),
		"broken/kustomization.yaml": "resources: [missing.yaml]\n",
		"policy.yaml":               validating("named", "configmaps", "object.metadata.name == 'one'", ""),
	})
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"review", "app"}, review.ExitAdmitted, "ConfigMap default/team-one"},
		{[]string{"audit", "app", "-f=policy.yaml"}, review.ExitRefused, "team-one"},
		{[]string{"lint", "guard"}, review.ExitAdmitted, "ValidatingAdmissionPolicy team-p"},
		{[]string{"review", "broken"}, review.ExitFailed, "missing.yaml"},
		{[]string{"audit", "broken", "-f=policy.yaml"}, review.ExitFailed, "missing.yaml"},
		{[]string{"lint", "broken"}, review.ExitFailed, "missing.yaml"},
	} {
		stdout, stderr, code := runCommand(t, test.args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("%q ended with %d, want %d and %q:\n%s%s", test.args, code, test.code, test.want, stdout, stderr)
		}
		if test.code != review.ExitFailed {
			continue
		}
		for format, mark := range map[string]string{"json": "{", "junit": `errors="1"`, "sarif": "{", "github": "::error ",
			"markdown": "**gatehouse "} {
			if format == "markdown" && test.args[0] == "lint" {
				continue // which has other formats
			}
			stdout, _, code := runCommand(t, append(test.args, "-o="+format)...)
			if code != test.code || !strings.Contains(stdout, mark) || !strings.Contains(stdout, test.want) {
				t.Errorf("%q -o %s ended with %d, want %q and %q in\n%s", test.args, format, code, mark, test.want, stdout)
			}
		}
	}
}
