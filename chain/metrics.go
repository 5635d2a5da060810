package chain

import (
	"context"

	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"

	_ "gatehouse.dev/internal/kubeversion" // metrics are those of a version
)

// Metrics returns the observer that feeds Kubernetes' own admission metrics,
// apiserver_admission_controller_admission_duration_seconds for each plugin and
// apiserver_admission_step_admission_duration_seconds (and its summary) for each phase. They are
// registered with k8s.io/component-base/metrics/legacyregistry, once a process. What a plugin left
// to others, and these refuse, counts as its refusal and that of the phase, besides the calls that
// had let the request pass.
func Metrics() Observer {
	m := admissionmetrics.Metrics
	// Upstream looks a histogram up by its labels at each step. That takes 2 of the 7 µs that four
	// plugins add to a create, and nothing that shows in creates per second.
	plugin := func(ctx context.Context, s PluginStep) {
		m.ObserveAdmissionController(ctx, s.Duration, s.Err != nil, s.Attributes, metricsType(s.Phase), s.Plugin)
	}
	return ObserverFuncs{
		Plugin: plugin,
		Phase: func(ctx context.Context, p PhaseStep) {
			m.ObserveAdmissionStep(ctx, p.Duration, p.Err != nil, p.Attributes, metricsType(p.Phase))
		},
		Late: func(ctx context.Context, s PluginStep) {
			if s.Err != nil {
				plugin(ctx, s)
				m.ObserveAdmissionStep(ctx, s.Duration, true, s.Attributes, metricsType(s.Phase))
			}
		},
	}
}

// metricsType is the value of the metrics' label "type".
func metricsType(phase Phases) string {
	if phase == Mutating {
		return "admit"
	}
	return "validate"
}
