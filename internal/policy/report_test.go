// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
)

// Observers receive a call for each policy with a rule for the request, with each binding and
// params, or one for each violation.
func TestObserversAreTold(t *testing.T) {
	limited := policyOf(t, "limited", byLimit)
	elsewhere := policyOf(t, "elsewhere", `validations: [{expression: "false"}]`)
	read(t, `{objectSelector: {matchLabels: {tier: back}}}`, elsewhere.Spec.MatchConstraints)
	services := policyOf(t, "services", `validations: [{expression: "false"}]`)
	services.Spec.MatchConstraints = resources("services")
	inOther := bind(t, "plain", "")
	inOther.Name, inOther.Spec.MatchResources = "other", resources("pods")
	read(t, `{namespaceSelector: {matchLabels: {closed: "true"}}}`, inOther.Spec.MatchResources)
	c := cluster(t, limit("one", 1), limit("two", 2), elsewhere, bind(t, "elsewhere", ""), services,
		bind(t, "services", ""),
		limited, bind(t, "limited", `{paramRef: {selector: {}, parameterNotFoundAction: Deny}}`),
		policyOf(t, "conditional",
			`{matchConditions: [{name: never, expression: "false"}], validations: [{expression: "false"}]}`),
		bind(t, "conditional", ""),
		policyOf(t, "erring", `{failurePolicy: Ignore, validations: [{expression: "object.nope == 1"}]}`),
		bind(t, "erring", ""),
		policyOf(t, "unsure", `{failurePolicy: Ignore, matchConditions: [{name: x, expression: "object.nope == 1"}], `+
			`validations: [{expression: "true"}]}`), bind(t, "unsure", ""),
		policyOf(t, "nowhere", `{paramKind: {apiVersion: v1, kind: Nope}, validations: [{expression: "true"}]}`),
		bind(t, "nowhere", ""), policyOf(t, "plain", `validations: [{expression: "true"}]`), bind(t, "plain", ""),
		inOther, policyOf(t, "telling", `validations: [{expression: "1 == 2", message: told}]`),
		named(bind(t, "telling", `validationActions: [Warn, Audit]`), "warning"),
		named(bind(t, "telling", `validationActions: [Audit]`), "auditing"),
		policyOf(t, "twice", `validations: [{expression: "1 == 2", message: first}, {expression: "true"}, {expression: "2 == 1", `+
			`message: second}]`), bind(t, "twice", ""))
	d := descriptor

	subject := c.Build(t, descriptor, "").Built
	d.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return subject, nil }
	var calls []plugin.Call
	admit, err := chain.New([]plugin.Descriptor{d}, nil, c.Env, plugin.Observe{Want: plugin.Wants{Calls: true},
		Step: func(_ context.Context, step plugin.Step) { calls = step.Calls }})
	if err != nil {
		t.Fatal(err)
	}
	if err := admit.Validate(t.Context(), create(), interfaces); err == nil {
		t.Error("the request should be refused")
	}
	for i := range calls {
		if took := calls[i].Duration; took < 0 || took == 0 && calls[i].Verdict == plugin.Admitted &&
			calls[i].Binding != "warning" { // which remembers what the one before came to
			t.Errorf("%+v took no time", calls[i])
		}
		if known := calls[i].Duration > 0; known == calls[i].Start.IsZero() {
			t.Errorf("it began at %v: %+v", calls[i].Start, calls[i])
		}
		calls[i].Kind, calls[i].Start, calls[i].Duration = "", time.Time{}, 0
	}
	want := []plugin.Call{
		{Name: "conditional", Binding: "conditional-binding", Verdict: plugin.Skipped,
			Why: `match condition "never" is false`},
		{Name: "elsewhere", Verdict: plugin.Skipped, Why: "objectSelector doesn't select the object"},
		{Name: "erring", Binding: "erring-binding", Verdict: plugin.Failed, Ignored: true,
			Expression: "object.nope == 1",
			Why:        "expression 'object.nope == 1' resulted in error: no such key: nope"},
		{Name: "limited", Binding: "limited-binding", Param: "one", Verdict: plugin.Refused, Why: "by one",
			Expression: "params == null || size(object.spec.containers) <= params.spec.max",
			Reads:      []string{"object.spec.containers[]", "params", "params.spec.max"}},
		{Name: "limited", Binding: "limited-binding", Param: "two", Verdict: plugin.Admitted},
		{Name: "nowhere", Verdict: plugin.Failed,
			Why: "failed to configure policy: failed to find resource referenced by " +
				"paramKind: '/v1, Kind=Nope'"},
		{Name: "plain", Binding: "other", Verdict: plugin.Skipped,
			Why: "namespaceSelector doesn't select the namespace"},
		{Name: "plain", Binding: "plain-binding", Verdict: plugin.Admitted},
		{Name: "telling", Binding: "auditing", Verdict: plugin.Admitted, Expression: "1 == 2",
			Why: `told (not refused: validationActions of the binding are [Audit])`},
		{Name: "telling", Binding: "warning", Verdict: plugin.Admitted, Expression: "1 == 2",
			Why: `told (not refused: validationActions of the binding are [Warn Audit])`, Warnings: []string{"told"}},
		{Name: "twice", Binding: "twice-binding", Verdict: plugin.Refused, Expression: "1 == 2", Why: "first"},
		{Name: "twice", Binding: "twice-binding", Verdict: plugin.Refused, Expression: "2 == 1", Why: "second"},
		{Name: "unsure", Binding: "unsure-binding", Verdict: plugin.Failed, Ignored: true,
			Why: "match conditions: expression 'object.nope == 1' resulted in error: no such key: nope"},
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}

// Observers receive a call for policies and bindings that nearly have a rule for the request.
// Nothing else happens: an error in matching such a policy isn't one of the request.
func TestNearMissesAreReported(t *testing.T) {
	const never = `validations: [{expression: "false"}]`
	forPods, forAll := policyOf(t, "pods", never), policyOf(t, "all", never)
	forAll.Spec.MatchConstraints = resources("pods", "pods/*")
	read(t, `{namespaceSelector: {matchLabels: {a: b}}}`, forAll.Spec.MatchConstraints)
	excluding := policyOf(t, "excluding", never)
	excluding.Spec.MatchConstraints = resources("pods/*")
	read(t, `excludeResourceRules:
- {operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: ["*/resize"]}`, excluding.Spec.MatchConstraints)
	bound := bind(t, "all", "")
	bound.Spec.MatchResources = resources("pods")
	c := cluster(t, forPods, bind(t, "pods", ""), forAll, bound, excluding, bind(t, "excluding", ""))
	subject := c.Build(t, descriptor, "").Built
	d := descriptor
	d.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return subject, nil }
	var got []string
	admit, err := chain.New([]plugin.Descriptor{d}, nil, c.Env, plugin.Observe{Want: plugin.Wants{Calls: true},
		Step: func(_ context.Context, step plugin.Step) {
			for _, call := range step.Calls {
				got = append(got, call.Name+" "+call.Binding+" "+string(call.Verdict)+": "+call.Why)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	pod := create()
	resized := admission.NewAttributesRecord(pod.GetObject(), pod.GetObject(), pod.GetKind(), "nowhere", pod.GetName(),
		pod.GetResource(), "resize", admission.Update, nil, false, nil)
	if err := admit.Validate(t.Context(), resized, interfaces); err != nil {
		t.Errorf("refused: %v", err)
	}
	want := []string{
		"all all-binding Skipped: its rules are for pods, and not for pods/resize",
		"excluding  Skipped: excludeResourceRules exclude the object",
		"pods  Skipped: its rules are for pods, and not for pods/resize",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
