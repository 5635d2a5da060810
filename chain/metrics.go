package chain

import (
	"context"

	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
)

// Metrics returns the observer that feeds Kubernetes' own admission metrics,
// apiserver_admission_controller_admission_duration_seconds for each plugin and
// apiserver_admission_step_admission_duration_seconds (and its summary) for each phase. They are
// registered with k8s.io/component-base/metrics/legacyregistry, once a process. What a plugin left
// to others, and these refuse, counts as its refusal and that of the phase, besides the calls that
// had let the request pass.
func Metrics() Observer {
	m := admissionmetrics.Metrics
	return ObserverFuncs{
		Plugin: func(ctx context.Context, s PluginStep) {
			labels := make([]string, 1, controllerLabels)
			labels[0] = s.Plugin
			m.ObserveAdmissionController(ctx, s.Duration, s.Err != nil, s.Attributes, metricsType(s.Phase), labels...)
		},
		Phase: func(ctx context.Context, p PhaseStep) {
			m.ObserveAdmissionStep(ctx, p.Duration, p.Err != nil, p.Attributes, metricsType(p.Phase))
		},
		Late: func(ctx context.Context, s PluginStep) {
			if s.Err != nil {
				m.ObserveAdmissionController(ctx, s.Duration, true, s.Attributes, metricsType(s.Phase), s.Plugin)
				m.ObserveAdmissionStep(ctx, s.Duration, true, s.Attributes, metricsType(s.Phase))
			}
		},
	}
}

// controllerLabels is how many labels the metric of a plugin has. The others are appended to the
// plugin's name, here without another allocation.
const controllerLabels = 4

// metricsType is the value of the metrics' label "type".
func metricsType(phase Phases) string {
	if phase == Mutating {
		return "admit"
	}
	return "validate"
}
