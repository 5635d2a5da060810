package chain

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	_ "gatehouse.dev/internal/kubeversion" // metrics are those of a version
)

// Metrics returns the observer that feeds Kubernetes' own admission metrics,
// apiserver_admission_controller_admission_duration_seconds for each plugin and
// apiserver_admission_step_admission_duration_seconds (and its summary) for each phase. They are
// registered with k8s.io/component-base/metrics/legacyregistry, once a process. What a plugin left
// to others, and these refuse, counts as its refusal and that of the phase, besides the calls that
// had let the request pass.
func Metrics() Observer {
	m, ofPlugins := admissionmetrics.Metrics, pluginDurations()
	return ObserverFuncs{
		Plugin: func(ctx context.Context, s PluginStep) { ofPlugins.observe(ctx, &s) },
		Phase: func(ctx context.Context, p PhaseStep) {
			m.ObserveAdmissionStep(ctx, p.Duration, p.Err != nil, p.Attributes, metricsType(p.Phase))
		},
		Late: func(ctx context.Context, s PluginStep) {
			if s.Err != nil {
				ofPlugins.observe(ctx, &s)
				m.ObserveAdmissionStep(ctx, s.Duration, true, s.Attributes, metricsType(s.Phase))
			}
		},
	}
}

// durations are the histograms of how long plugins took. Kubernetes' own code looks the histogram
// up by its labels, and makes three objects, at each step of each request: a good part of what a
// chain of plugins costs that have nothing to do. Each is looked up once here.
type durations struct {
	*metrics.HistogramVec
	// known are histograms by their labels: a map that isn't changed. A Reset begins it anew.
	known atomic.Pointer[map[of]metrics.ObserverMetric]
}

// of are the labels of a histogram.
type of struct {
	plugin    string
	phase     Phases
	operation admission.Operation
	rejected  bool
}

// pluginDurations are those of the process. The metric is Kubernetes' own, which doesn't give it
// away: one of the same name is told, when it is registered, which one is there. What is registered
// all the same is that this wants to know of each Reset.
var pluginDurations = sync.OnceValue(func() *durations {
	d := &durations{HistogramVec: metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "apiserver", Subsystem: "admission", Name: "controller_admission_duration_seconds",
		Help: "Admission controller latency histogram in seconds, identified by name and broken out for each " +
			"operation and API resource and type (validate or admit).",
		StabilityLevel: metrics.STABLE,
	}, []string{"name", "type", "operation", "rejected"})}
	d.Reset()
	var there prometheus.AlreadyRegisteredError
	errors.As(legacyregistry.Register(d), &there)
	d.HistogramVec, _ = there.ExistingCollector.(*metrics.HistogramVec)
	return d
})

// Reset forgets the histograms that are known. The registry has made their metric anew before.
func (d *durations) Reset() { d.known.Store(&map[of]metrics.ObserverMetric{}) }

// observe counts a step.
func (d *durations) observe(ctx context.Context, s *PluginStep) {
	// A histogram that is known takes no trace as an example of what it counts.
	if span := trace.SpanContextFromContext(ctx); d.HistogramVec == nil || span.IsSampled() {
		admissionmetrics.Metrics.ObserveAdmissionController(ctx, s.Duration, s.Err != nil, s.Attributes,
			metricsType(s.Phase), s.Plugin)
		return
	}
	d.histogram(of{s.Plugin, s.Phase, s.Attributes.GetOperation(), s.Err != nil}).Observe(s.Duration.Seconds())
}

// histogram is the one that has the labels.
func (d *durations) histogram(labels of) metrics.ObserverMetric {
	known := d.known.Load()
	if h, ok := (*known)[labels]; ok {
		return h
	}
	h := d.WithLabelValues(labels.plugin, metricsType(labels.phase), string(labels.operation),
		strconv.FormatBool(labels.rejected))
	more := maps.Clone(*known)
	more[labels] = h
	// Where a Reset came between, h may be one that nobody reads any more. Where another histogram
	// did, this one is looked up again the next time.
	d.known.CompareAndSwap(known, &more)
	return h
}

// metricsType is the value of the metrics' label "type".
func metricsType(phase Phases) string {
	if phase == Mutating {
		return "admit"
	}
	return "validate"
}
