// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// skipped returns a call that wasn't made.
func skipped(name, why string) v1alpha1.Call {
	return v1alpha1.Call{Kind: webhook, Name: name, Verdict: v1alpha1.Skipped, Why: why}
}

// Webhooks and policies that weren't asked come in the order of how near they were, and by the
// audit ID all are named.
func TestNotAsked(t *testing.T) {
	d := &v1alpha1.Decision{Verdict: v1alpha1.Admitted, Code: 200}
	d.Name = "7d0c"
	d.Steps = []v1alpha1.Step{{Plugin: "MutatingAdmissionWebhook", Phase: "Mutate", Verdict: v1alpha1.Admitted,
		OmittedCalls: 3, Calls: []v1alpha1.Call{
			skipped("a", "namespaceSelector doesn't select the namespace"),
			skipped("b", "objectSelector doesn't select the object"),
			skipped("c", `match condition "team" is false`),
			skipped("d", "its rules are for deployments, and not for deployments/scale"),
			skipped("e", "validatingadmissionpolicies are exempt, whatever its rules say"),
		}}, {Plugin: "ValidatingAdmissionPolicy", Phase: "Validate", Verdict: v1alpha1.Admitted, Calls: []v1alpha1.Call{
		skipped("f", "namespaceSelector doesn't select the namespace"),
		skipped("g", "excludeResourceRules exclude the object"),
		skipped("h", "resourceNames of no rule name the object"),
		skipped("i", `match condition "team" is false`),
	}}}
	want := strings.Fields("d e g h c i b a f")
	var got []string
	for _, r := range Explain(d, nil).NotAsked {
		got = append(got, r.Call.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	few := printer(100).Found(&Found{Decisions: []v1alpha1.Decision{*d}}, 1)
	for _, text := range []string{"not asked MutatingAdmissionWebhook: webhook d: its rules are for deployments, and",
		"and 4 more (gatehouse why 7d0c names them)"} {
		if !strings.Contains(few, text) {
			t.Errorf("it should say %q:\n%s", text, few)
		}
	}
	all := printer(100).Decision(d)
	names := 0
	for line := range strings.Lines(all) {
		if strings.Contains(line, ": webhook ") {
			names++
		}
	}
	if names != len(want) || strings.Contains(all, "names them") || !strings.Contains(all, "omitted   3 more") {
		t.Errorf("it names %d, want %d and 3 more:\n%s", names, len(want), all)
	}
}

// A mutating call that was admitted and has a reason dropped something, and a validating one let a
// violation pass.
func TestAdmittedWithAReason(t *testing.T) {
	dropping := []v1alpha1.Call{
		{Kind: webhook, Name: "w", Verdict: v1alpha1.Admitted, Why: "its patch set spec.nothing, which objects of " +
			"this kind don't have"},
		{Kind: policy, Name: "p", Verdict: v1alpha1.Admitted, Why: "its mutations set spec.other, which objects of " +
			"this kind don't have"},
		{Kind: limitRange, Name: "l", Verdict: v1alpha1.Admitted, Why: "sets cpu limit 500m for container web"},
	}
	audited := []v1alpha1.Call{
		{Kind: policy, Name: "audited", Verdict: v1alpha1.Admitted, Why: "no (not refused: …)"},
		{Kind: policy, Name: "warned", Verdict: v1alpha1.Admitted, Why: "no (not refused: …)",
			Warnings: []string{"no"}},
		{Kind: policy, Name: "held", Verdict: v1alpha1.Admitted},
	}
	e := Explain(&v1alpha1.Decision{Verdict: v1alpha1.Admitted, Steps: []v1alpha1.Step{
		{Phase: "Mutate", Verdict: v1alpha1.Admitted, Calls: dropping},
		{Phase: "Validate", Verdict: v1alpha1.Admitted, Calls: audited},
	}}, nil)
	names := func(all []Refusal) (names []string) {
		for _, r := range all {
			names = append(names, r.Call.Name)
		}
		return names
	}
	for _, list := range []struct {
		of   string
		got  []Refusal
		want []string
	}{{"dropped", e.Dropped, []string{"w", "p"}}, {"let pass", e.LetPass, []string{"audited"}},
		{"warned", e.Warned, []string{"warned"}}} {
		if diff := cmp.Diff(list.want, names(list.got)); diff != "" {
			t.Errorf("%s: -want +got: %s", list.of, diff)
		}
	}
}
