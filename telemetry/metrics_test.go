// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/metrics/legacyregistry"

	"gatehouse.dev/plugin"
)

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
	c := newChain(t, []plugin.Descriptor{
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
	c := newChain(t, []plugin.Descriptor{described("MetricsTestReset", fake{admit: idle})}, Metrics())
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

// A refusal by the storage for a plugin counts like a refusal by the plugin.
func TestMetricsOfWhatIsRefusedLate(t *testing.T) {
	var enforcement *plugin.Enforcement
	c := newChain(t, []plugin.Descriptor{described("MetricsTestLate", fake{validate: func(a admission.Attributes) error {
		enforcement = plugin.Enforce(a)
		return nil
	}})}, Metrics())
	before := samples(t)
	for _, err := range []error{nil, errors.New("full")} {
		if err := c.Validate(t.Context(), create(newPod()), newInterfaces()); err != nil {
			t.Fatal(err)
		}
		enforcement.Report(err)
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
