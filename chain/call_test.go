// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

// Who asks for calls gets those of each plugin, in each phase and round, and no plugin's twice.
func TestCalls(t *testing.T) {
	calling := func(name string) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			a.GetReinvocationContext().SetShouldReinvoke()
			if calls := plugin.CallsOf(a); calls != nil {
				calls.Add(plugin.Call{Kind: plugin.Webhook, Name: name, Verdict: plugin.Admitted})
				calls.Add(plugin.Call{Kind: plugin.Policy, Name: name, Verdict: plugin.Skipped})
			}
			return nil
		}
	}
	list := []plugin.Descriptor{
		described("one", fake{admit: calling("a"), validate: calling("b")}),
		described("none", fake{admit: idle, validate: idle}),
		described("two", fake{admit: calling("c")}),
	}
	for _, wanted := range []bool{true, false} {
		var got []string
		observe := plugin.Observe{Want: plugin.Wants{Calls: wanted}, Step: func(_ context.Context, s plugin.Step) {
			text := fmt.Sprintf("%s %s %d:", s.Plugin, s.Phase, s.Round)
			for _, c := range s.Calls {
				text += fmt.Sprintf(" %s %s %s", c.Kind, c.Name, c.Verdict)
			}
			got = append(got, text)
		}}
		c := newChain(t, list, plugin.Observe{}, observe)
		a := create(newPod())
		if err := c.Admit(t.Context(), a, newInterfaces()); err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(t.Context(), a, newInterfaces()); err != nil {
			t.Fatal(err)
		}
		of := func(name string) string {
			if !wanted {
				return ""
			}
			return fmt.Sprintf(" Webhook %s Admitted Policy %s Skipped", name, name)
		}
		want := []string{
			"one mutating 0:" + of("a"), "none mutating 0:", "two mutating 0:" + of("c"),
			"one mutating 1:" + of("a"), "none mutating 1:", "two mutating 1:" + of("c"),
			"one validating 0:" + of("b"), "none validating 0:",
		}
		if !slices.Equal(got, want) {
			t.Errorf("wanted %t: the steps are %q\nwant %q", wanted, got, want)
		}
	}
}

// Observers learn the result of an enforcement when it is reported.
func TestEnforcement(t *testing.T) {
	var enforcement *plugin.Enforcement
	list := []plugin.Descriptor{
		described("leaves", fake{validate: func(a admission.Attributes) error {
			enforcement = plugin.Enforce(a)
			return nil
		}}),
		described("last", fake{validate: idle}),
	}
	var got []string
	c := newChain(t, list, plugin.Observe{Step: func(_ context.Context, s plugin.Step) {
		if s.Enforcement == nil {
			return
		}
		s.Enforcement.Then(func(err error, calls []plugin.Call) {
			got = append(got, fmt.Sprintf("%s %s %s %v", s.Plugin, s.Phase, calls[0].Name, err))
		})
	}})
	if err := c.Validate(t.Context(), create(newPod()), newInterfaces()); err != nil {
		t.Fatal(err)
	}
	if got != nil {
		t.Errorf("%q is reported before it was decided", got)
	}
	enforcement.Report(errors.New("full"), plugin.Call{Kind: plugin.Quota, Name: "q", Verdict: plugin.Refused})
	if want := []string{"leaves validating q full"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Where nobody wants calls it costs nothing to know that.
func TestUnwantedCallsCostNothing(t *testing.T) {
	a := newVersioned(create(newPod()), newInterfaces(), true, plugin.Wants{})
	if allocations := testing.AllocsPerRun(100, func() {
		if plugin.CallsOf(a) != nil {
			t.Error("somebody wants to know")
		}
	}); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if plugin.CallsOf(create(newPod())) != nil {
		t.Error("attributes that are not a chain's have calls")
	}
}
