// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"

	"gatehouse.dev/plugin"
)

// recorder is an observer that writes down what it is told.
type recorder struct {
	steps    []string
	duration bool // all durations were positive
}

func (r *recorder) observer(changes bool) plugin.Observer {
	r.duration = true
	return plugin.Observe{
		Want: plugin.Wants{Changes: changes},
		Step: func(_ context.Context, s plugin.Step) {
			r.duration = r.duration && s.Duration > 0
			changes, err := s.Changes.Patch()
			r.steps = append(r.steps, fmt.Sprintf("%s %s %s round %d changed %v: %v", s.Attributes.GetName(), s.Plugin,
				s.Phase, s.Round, err == nil && len(changes) > 0, s.Err))
		},
		Phase: func(_ context.Context, p plugin.PhaseStep) {
			r.duration = r.duration && p.Duration > 0
			r.steps = append(r.steps,
				fmt.Sprintf("%s %s rounds %d: %v", p.Attributes.GetName(), p.Phase, p.Rounds, p.Err))
		},
	}
}

func TestObservers(t *testing.T) {
	again := func(a admission.Attributes) error {
		a.GetReinvocationContext().SetShouldReinvoke()
		return label("x", "1")(a)
	}
	internal := func(a admission.Attributes) error {
		a.GetObject().(*example.Pod).Labels["internal"] = "yes"
		return nil
	}
	list := []plugin.Descriptor{
		described("other", fake{operations: []admission.Operation{admission.Delete}, admit: idle, validate: idle}),
		described("look", fake{admit: look, validate: look}),
		described("change", fake{admit: again}),
		described("internal", fake{admit: internal}),
		described("refuse", fake{validate: func(admission.Attributes) error { return errors.New("no") }}),
		described("never", fake{validate: idle}),
	}
	list[3].Server.Internal = true
	for _, changes := range []bool{true, false} {
		r, second := &recorder{}, &recorder{}
		c := newChain(t, list, r.observer(changes), second.observer(false), plugin.Observe{})
		a := create(newPod())
		if err := c.Admit(context.Background(), a, newInterfaces()); err != nil {
			t.Fatal(err)
		}
		wantError(t, c.Validate(context.Background(), a, newInterfaces()), "no")
		want := []string{
			"web look mutating round 0 changed false: <nil>",
			fmt.Sprintf("web change mutating round 0 changed %v: <nil>", changes),
			fmt.Sprintf("web internal mutating round 0 changed %v: <nil>", changes),
			"web look mutating round 1 changed false: <nil>",
			"web change mutating round 1 changed false: <nil>",
			"web internal mutating round 1 changed false: <nil>",
			"web mutating rounds 2: <nil>",
			"web look validating round 0 changed false: <nil>",
			"web refuse validating round 0 changed false: no",
			"web validating rounds 1: no",
		}
		if !reflect.DeepEqual(r.steps, want) {
			t.Errorf("with changes %v observed\n%q\nwant\n%q", changes, r.steps, want)
		}
		if !reflect.DeepEqual(second.steps, want) {
			t.Errorf("the second observer saw\n%q\nwant\n%q", second.steps, want)
		}
		if !r.duration {
			t.Error("a duration is not positive")
		}
	}
}

func TestObserversOfFailures(t *testing.T) {
	for name, test := range map[string]struct {
		admit func(admission.Attributes) error
		steps []string
	}{
		"refusal": {func(a admission.Attributes) error { _ = label("x", "1")(a); return errors.New("no") },
			[]string{"web a mutating round 0 changed true: no", "web mutating rounds 1: no"}},
		"panic": {func(admission.Attributes) error { panic("x") }, []string{
			`web a mutating round 0 changed false: Internal error occurred: admission plugin "a" panicked in the ` +
				`mutating phase`,
			`web mutating rounds 1: Internal error occurred: admission plugin "a" panicked in the mutating phase`}},
	} {
		t.Run(name, func(t *testing.T) {
			captureLog(t)
			r := &recorder{}
			if err := newChain(t, mutators(test.admit), r.observer(true)).Admit(context.Background(), create(newPod()),
				newInterfaces()); err == nil {
				t.Error("no error")
			}
			if !reflect.DeepEqual(r.steps, test.steps) {
				t.Errorf("observed\n%q\nwant\n%q", r.steps, test.steps)
			}
		})
	}
}

// objectWatcher keeps the label a of each object as the mutating phase begins with it.
type objectWatcher struct {
	plugin.Observe
	labels []string
}

func (w *objectWatcher) PhaseBegins(ctx context.Context, phase plugin.PhaseStep) context.Context {
	if phase.Shown != nil {
		w.labels = append(w.labels, phase.Shown.GetObject().(*examplev1.Pod).Labels["a"])
	}
	return ctx
}

// An observer that wants objects sees them in their API version, as they were before any plugin
// changed them, and the chain then handles operations that no plugin is called for.
func TestObserversOfObjects(t *testing.T) {
	list := []plugin.Descriptor{described("change", fake{operations: []admission.Operation{admission.Create},
		admit: label("a", "changed")})}
	w := &objectWatcher{Observe: plugin.Observe{Want: plugin.Wants{Objects: true}}}
	c := newChain(t, list, w)
	pod := newPod()
	pod.Labels["a"] = "sent"
	a := create(pod)
	if err := c.Admit(context.Background(), a, newInterfaces()); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(context.Background(), a, newInterfaces()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(w.labels, []string{"sent"}) || pod.Labels["a"] != "changed" {
		t.Errorf("observed %q, the pod has %q", w.labels, pod.Labels["a"])
	}
	if !c.Handles(admission.Connect) || newChain(t, list).Handles(admission.Connect) {
		t.Error("connections are handled without an observer of objects, or not with one")
	}
}
