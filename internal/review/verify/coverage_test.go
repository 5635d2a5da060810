package verify

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
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
	const notAsked = chain.WouldBeAsked + ", but no webhooks are"
	webhook := chain.Call{Kind: chain.Webhook, Name: "w.example.com", Configuration: "c"}
	policy := chain.Call{Kind: chain.Policy, Name: "p", Verdict: chain.Admitted}
	with := func(c chain.Call, verdict chain.Verdict, why, expression string) chain.Call {
		c.Verdict, c.Why, c.Expression = verdict, why, expression
		return c
	}
	for name, test := range map[string]struct {
		plugin string
		calls  []chain.Call
		want   string
	}{
		"nothing": {"ValidatingAdmissionPolicy", nil, ""},
		"a policy that holds": {"ValidatingAdmissionPolicy", []chain.Call{policy},
			"ValidatingAdmissionPolicy p 1/1, validations[0] 0/1, validations[1] 0/1"},
		"a violation, by two bindings": {"ValidatingAdmissionPolicy", []chain.Call{
			with(policy, chain.Refused, "", "b == 2"), with(policy, chain.Refused, "", "b == 2")},
			"ValidatingAdmissionPolicy p 1/1, validations[0] 0/1, validations[1] 1/1"},
		"a validation that can't be evaluated": {"ValidatingAdmissionPolicy", []chain.Call{
			with(policy, chain.Failed, "no such key", "a == 1")},
			"ValidatingAdmissionPolicy p 1/1, validations[0] 0/1, validations[1] 0/1"},
		"a policy that is passed over": {"ValidatingAdmissionPolicy", []chain.Call{
			with(policy, chain.Skipped, "match condition \"c\" is false", "")}, ""},
		"the mutating one of the same name": {"MutatingAdmissionPolicy", []chain.Call{policy},
			"MutatingAdmissionPolicy p 1/1"},
		"a LimitRange": {"LimitRanger", []chain.Call{{Kind: chain.LimitRange, Name: "l", Verdict: chain.Admitted}},
			"LimitRange l 1/1"},
		"a LimitRange of another name": {"LimitRanger",
			[]chain.Call{{Kind: chain.LimitRange, Name: "m", Verdict: chain.Admitted}}, ""},
		"a webhook that would be asked, by one rule": {"MutatingAdmissionWebhook",
			[]chain.Call{with(webhook, chain.Skipped, notAsked, "")},
			"MutatingWebhookConfiguration c w.example.com rules[0] 1/1"},
		"the validating one of the same name": {"ValidatingAdmissionWebhook",
			[]chain.Call{with(webhook, chain.Admitted, "", "")},
			"ValidatingWebhookConfiguration c w.example.com rules[0] 1/1"},
		"a webhook that is passed over": {"MutatingAdmissionWebhook",
			[]chain.Call{with(webhook, chain.Skipped, "objectSelector doesn't select the object", "")}, ""},
		"another backend": {"ImagePolicyWebhook", []chain.Call{{Kind: chain.Backend, Name: "ImagePolicyWebhook",
			Verdict: chain.Skipped, Why: notAsked}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCovering(&suite.Suite{State: read(t, configured),
				Cases: []suite.Case{{State: read(t, configured)}}})
			if len(c.all) != 9 {
				t.Fatalf("there are %d things to cover", len(c.all))
			}
			var calls []observed
			for _, call := range test.calls {
				calls = append(calls, observed{call, test.plugin, "default", createPod()})
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
		c := newCovering(&suite.Suite{State: read(t, configured)})
		c.add([]observed{{chain.Call{Kind: chain.LimitRange, Name: "l", Verdict: chain.Refused}, "LimitRanger",
			"default", createPod()}})
		tasks = append(tasks, &task{covering: c})
	}
	all := merge(tasks)
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
