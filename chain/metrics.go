package chain

import (
	"context"

	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
)

// Metrics returns the observer that feeds Kubernetes' own admission metrics,
// apiserver_admission_controller_admission_duration_seconds for each plugin and
// apiserver_admission_step_admission_duration_seconds (and its summary) for each phase. They are
// registered with k8s.io/component-base/metrics/legacyregistry, once a process.
func Metrics() Observer {
	m := admissionmetrics.Metrics
	return ObserverFuncs{
		Plugin: func(ctx context.Context, s PluginStep) {
			m.ObserveAdmissionController(ctx, s.Duration, s.Err != nil, s.Attributes, metricsType(s.Phase), s.Plugin)
		},
		Phase: func(ctx context.Context, p PhaseStep) {
			m.ObserveAdmissionStep(ctx, p.Duration, p.Err != nil, p.Attributes, metricsType(p.Phase))
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
