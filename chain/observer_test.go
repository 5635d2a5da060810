package chain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/component-base/metrics/legacyregistry"
)

// recorder is an observer that writes down what it is told.
type recorder struct {
	steps    []string
	duration bool // all durations were positive
}

func (r *recorder) observer(changes bool) Observer {
	r.duration = true
	return ObserverFuncs{
		Changes: changes,
		Plugin: func(_ context.Context, s PluginStep) {
			r.duration = r.duration && s.Duration > 0
			changes, err := s.Changes.Patch()
			r.steps = append(r.steps, fmt.Sprintf("%s %s %s round %d changed %v: %v", s.Attributes.GetName(), s.Plugin,
				s.Phase, s.Round, err == nil && len(changes) > 0, s.Err))
		},
		Phase: func(_ context.Context, p PhaseStep) {
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
	list := []Descriptor{
		described("other", fake{operations: []admission.Operation{admission.Delete}, admit: idle, validate: idle}),
		described("look", fake{admit: look, validate: look}),
		described("change", fake{admit: again}),
		described("internal", fake{admit: internal}),
		described("refuse", fake{validate: func(admission.Attributes) error { return errors.New("no") }}),
		described("never", fake{validate: idle}),
	}
	list[3].Internal = true
	for _, changes := range []bool{true, false} {
		r, second := &recorder{}, &recorder{}
		c := newChain(t, list, r.observer(changes), second.observer(false), ObserverFuncs{})
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

// samples are the counts of the admission histograms in the process's registry, by name and labels.
func samples(t *testing.T) map[string]uint64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetHistogram() == nil {
				continue
			}
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			counts[key] = m.GetHistogram().GetSampleCount()
		}
	}
	return counts
}

func TestMetrics(t *testing.T) {
	c := newChain(t, []Descriptor{
		described("MetricsTestA", fake{admit: idle, validate: idle}),
		described("MetricsTestB", fake{validate: refuse}),
	}, Metrics())
	before := samples(t)
	if err := c.Admit(context.Background(), create(newPod()), newInterfaces()); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(context.Background(), create(newPod()), newInterfaces()); err == nil {
		t.Fatal("not refused")
	}
	after := samples(t)
	for _, key := range []string{
		"apiserver_admission_controller_admission_duration_seconds name=MetricsTestA operation=CREATE " +
			"rejected=false type=admit",
		"apiserver_admission_controller_admission_duration_seconds name=MetricsTestA operation=CREATE " +
			"rejected=false type=validate",
		"apiserver_admission_controller_admission_duration_seconds name=MetricsTestB operation=CREATE rejected=true " +
			"type=validate",
		"apiserver_admission_step_admission_duration_seconds operation=CREATE rejected=false type=admit",
		"apiserver_admission_step_admission_duration_seconds operation=CREATE rejected=true type=validate",
	} {
		if after[key] != before[key]+1 {
			t.Errorf("%s went from %d to %d, want one more", key, before[key], after[key])
		}
	}
}

// After DELETE /metrics all is counted from 0.
func TestMetricsAreReset(t *testing.T) {
	c := newChain(t, []Descriptor{described("MetricsTestReset", fake{admit: idle})}, Metrics())
	key := "apiserver_admission_controller_admission_duration_seconds name=MetricsTestReset operation=CREATE " +
		"rejected=false type=admit"
	for _, want := range []uint64{2, 4, 2} {
		if want == 2 {
			legacyregistry.Reset()
		}
		for range 2 {
			if err := c.Admit(t.Context(), create(newPod()), newInterfaces()); err != nil {
				t.Fatal(err)
			}
		}
		if got := samples(t)[key]; got != want {
			t.Errorf("%d steps are counted, want %d", got, want)
		}
	}
}

// What storage refuses for a plugin is its refusal, as it is where the plugin refuses itself.
func TestMetricsOfWhatIsRefusedLate(t *testing.T) {
	var decide func(error, ...Call)
	c := newChain(t, []Descriptor{described("MetricsTestLate", fake{validate: func(a admission.Attributes) error {
		decide = Later(t.Context(), a)
		return nil
	}})}, Metrics())
	before := samples(t)
	for _, err := range []error{nil, errors.New("full")} {
		if err := c.Validate(t.Context(), create(newPod()), newInterfaces()); err != nil {
			t.Fatal(err)
		}
		decide(err)
	}
	after := samples(t)
	for key, more := range map[string]uint64{
		"apiserver_admission_controller_admission_duration_seconds name=MetricsTestLate operation=CREATE " +
			"rejected=false type=validate": 2,
		"apiserver_admission_controller_admission_duration_seconds name=MetricsTestLate operation=CREATE " +
			"rejected=true type=validate": 1,
		"apiserver_admission_step_admission_duration_seconds operation=CREATE rejected=true type=validate": 1,
	} {
		if after[key] != before[key]+more {
			t.Errorf("%s went from %d to %d, want %d more", key, before[key], after[key], more)
		}
	}
}
