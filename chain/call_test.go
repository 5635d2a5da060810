package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/admission"
)

// Who asks for calls gets those of each plugin, in each phase and round, and no plugin's twice.
func TestCalls(t *testing.T) {
	calling := func(name string) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			a.GetReinvocationContext().SetShouldReinvoke()
			if calls := CallsOf(a); calls != nil {
				calls.Add(Call{Kind: Webhook, Name: name, Verdict: Admitted})
				calls.Add(Call{Kind: Policy, Name: name, Verdict: Skipped})
			}
			return nil
		}
	}
	list := []Descriptor{
		described("one", fake{admit: calling("a"), validate: calling("b")}),
		described("none", fake{admit: idle, validate: idle}),
		described("two", fake{admit: calling("c")}),
	}
	for _, wanted := range []bool{true, false} {
		var got []string
		observe := ObserverFuncs{Calls: wanted, Plugin: func(_ context.Context, s PluginStep) {
			text := fmt.Sprintf("%s %s %d:", s.Plugin, s.Phase, s.Round)
			for _, c := range s.Calls {
				text += fmt.Sprintf(" %s %s %s", c.Kind, c.Name, c.Verdict)
			}
			got = append(got, text)
		}}
		c := newChain(t, list, ObserverFuncs{}, observe)
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

// What a plugin left to others to decide is told when it is decided, as the plugin's own step.
func TestLaterIsTold(t *testing.T) {
	var decide func(error, ...Call)
	list := []Descriptor{
		described("leaves", fake{validate: func(a admission.Attributes) error {
			decide = Later(t.Context(), a)
			return nil
		}}),
		described("last", fake{validate: idle}),
	}
	var got []string
	c := newChain(t, list, ObserverFuncs{}, ObserverFuncs{Calls: true, Late: func(_ context.Context, s PluginStep) {
		got = append(got, fmt.Sprintf("%s %s %s %s %v", s.Plugin, s.Phase, s.Attributes.GetName(), s.Calls[0].Name,
			s.Err))
	}})
	a := create(newPod())
	if err := c.Validate(t.Context(), a, newInterfaces()); err != nil {
		t.Fatal(err)
	}
	if got != nil {
		t.Errorf("told %q before it was decided", got)
	}
	decide(errors.New("full"), Call{Kind: Quota, Name: "q", Verdict: Refused})
	if want := []string{"leaves validating " + a.GetName() + " q full"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Where nobody wants calls it costs nothing to know that.
func TestUnwantedCallsCostNothing(t *testing.T) {
	a := newVersioned(create(newPod()), newInterfaces(), true, false)
	if allocations := testing.AllocsPerRun(100, func() {
		if CallsOf(a) != nil {
			t.Error("somebody wants to know")
		}
	}); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if CallsOf(create(newPod())) != nil {
		t.Error("attributes that are not a chain's have calls")
	}
}
