// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
)

// configured is what there is to cover.
const configured = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec: {validations: [{expression: "a == 1\n"}, {expression: b == 2}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: p}
---
apiVersion: v1
kind: LimitRange
metadata: {name: l}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: c}
webhooks:
- name: w.example.com
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  - {operations: [DELETE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
- name: v.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: c}
webhooks:
- name: w.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
`

func read(t *testing.T, text string) []input.Document {
	t.Helper()
	documents, errs := input.Read([]string{"-"}, strings.NewReader(text))
	if errs != nil {
		t.Fatal(errs)
	}
	return documents
}

// createPod is the target of the request that is judged.
func createPod() matching.Target {
	v1 := schema.GroupVersion{Version: "v1"}
	return matching.TargetOf(admission.NewAttributesRecord(nil, nil, v1.WithKind("Pod"), "default", "p",
		v1.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil))
}

// Each call touches what it is one of, and nothing else. A validation is touched by who violates it
// alone; what was passed over by a selector or a condition isn't touched, and what is only not
// asked because webhooks are skipped is.
func TestCovering(t *testing.T) {
	const notAsked = plugin.WouldBeAsked + ", but no webhooks are"
	webhook := plugin.Call{Kind: plugin.Webhook, Name: "w.example.com", Configuration: "c"}
	policy := plugin.Call{Kind: plugin.Policy, Name: "p", Verdict: plugin.Admitted}
	with := func(c plugin.Call, verdict plugin.Verdict, why, expression string) plugin.Call {
		c.Verdict, c.Why, c.Expression = verdict, why, expression
		return c
	}
	for name, test := range map[string]struct {
		plugin string
		calls  []plugin.Call
		want   string
	}{
		"nothing": {"ValidatingAdmissionPolicy", nil, ""},
		"a policy that holds": {"ValidatingAdmissionPolicy", []plugin.Call{policy},
			"ValidatingAdmissionPolicy p 1/1, validations[0] 0/1, validations[1] 0/1"},
		"a violation, by two bindings": {"ValidatingAdmissionPolicy", []plugin.Call{
			with(policy, plugin.Refused, "", "b == 2"), with(policy, plugin.Refused, "", "b == 2")},
			"ValidatingAdmissionPolicy p 1/1, validations[0] 0/1, validations[1] 1/1"},
		"a validation that can't be evaluated": {"ValidatingAdmissionPolicy", []plugin.Call{
			with(policy, plugin.Failed, "no such key", "a == 1")},
			"ValidatingAdmissionPolicy p 1/1, validations[0] 0/1, validations[1] 0/1"},
		"a policy that is passed over": {"ValidatingAdmissionPolicy", []plugin.Call{
			with(policy, plugin.Skipped, "match condition \"c\" is false", "")}, ""},
		"the mutating one of the same name": {"MutatingAdmissionPolicy", []plugin.Call{policy},
			"MutatingAdmissionPolicy p 1/1"},
		"a LimitRange": {"LimitRanger", []plugin.Call{{Kind: plugin.LimitRange, Name: "l", Verdict: plugin.Admitted}},
			"LimitRange l 1/1"},
		"a LimitRange of another name": {"LimitRanger",
			[]plugin.Call{{Kind: plugin.LimitRange, Name: "m", Verdict: plugin.Admitted}}, ""},
		"a webhook that would be asked, by one rule": {"MutatingAdmissionWebhook",
			[]plugin.Call{with(webhook, plugin.Skipped, notAsked, "")},
			"MutatingWebhookConfiguration c w.example.com rules[0] 1/1"},
		"the validating one of the same name": {"ValidatingAdmissionWebhook",
			[]plugin.Call{with(webhook, plugin.Admitted, "", "")},
			"ValidatingWebhookConfiguration c w.example.com rules[0] 1/1"},
		"a webhook that is passed over": {"MutatingAdmissionWebhook",
			[]plugin.Call{with(webhook, plugin.Skipped, "objectSelector doesn't select the object", "")}, ""},
		"another backend": {"ImagePolicyWebhook", []plugin.Call{{Kind: plugin.Backend, Name: "ImagePolicyWebhook",
			Verdict: plugin.Skipped, Why: notAsked}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCoverageCounter(&suite.Suite{State: read(t, configured),
				Cases: []suite.Case{{State: read(t, configured)}}})
			if len(c.all) != 9 {
				t.Fatalf("there are %d things to cover", len(c.all))
			}
			var calls []observedCall
			for _, call := range test.calls {
				calls = append(calls, observedCall{call, test.plugin, "default", createPod()})
			}
			c.add(calls)
			var touched []string
			for _, thing := range c.all {
				if thing.Cases > 0 || thing.Hits > 0 {
					text := strings.TrimSpace(thing.Kind + " " + thing.Name + " " + thing.Part)
					if strings.HasPrefix(thing.Part, "validations") {
						text = thing.Part
					}
					touched = append(touched, text+" "+string(rune('0'+thing.Hits))+"/"+string(rune('0'+thing.Cases)))
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(touched, ", ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The same thing of a file in several suites is one, with all its cases.
func TestMerge(t *testing.T) {
	var tasks []*task
	for range 2 {
		c := newCoverageCounter(&suite.Suite{State: read(t, configured)})
		c.add([]observedCall{{plugin.Call{Kind: plugin.LimitRange, Name: "l", Verdict: plugin.Refused}, "LimitRanger",
			"default", createPod()}})
		tasks = append(tasks, &task{coverage: c})
	}
	all := mergeCoverage(tasks)
	if len(all) != 9 {
		t.Errorf("there are %d", len(all))
	}
	for i, c := range all {
		if i > 0 && all[i-1].Source.Line > c.Source.Line {
			t.Errorf("%s comes after %s", c.String(), all[i-1].String())
		}
		if c.Kind == "LimitRange" && (c.Cases != 2 || c.Hits != 2) {
			t.Errorf("got %+v", c)
		}
	}
}
