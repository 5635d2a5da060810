package decision

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// The metrics are those of a process. Where it has several servers, what is kept is that of the one
// that decided last.
var (
	decisionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_total",
		Help:           "Decisions that were recorded, by verdict: Admitted, Refused or Failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"verdict"})

	evictedTotal = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_evicted_total",
		Help:           "Decisions that were kept in memory, and had to go for others.",
		StabilityLevel: metrics.ALPHA,
	})

	heldCount = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_held",
		Help:           "Decisions that are kept in memory, at most --decision-max-count.",
		StabilityLevel: metrics.ALPHA,
	})

	heldBytes = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_held_bytes",
		Help:           "Bytes of memory that the kept decisions take, roughly; at most --decision-max-bytes.",
		StabilityLevel: metrics.ALPHA,
	})

	watching = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_watchers",
		Help:           "Watches of decisions that are open.",
		StabilityLevel: metrics.ALPHA,
	})

	droppedWatchersTotal = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_dropped_watchers_total",
		Help:           "Watches of decisions that were ended because their clients didn't read.",
		StabilityLevel: metrics.ALPHA,
	})

	logErrorsTotal = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_log_errors_total",
		Help:           "Decisions that could not be written to --decision-log-path.",
		StabilityLevel: metrics.ALPHA,
	})
)

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(decisionsTotal, evictedTotal, heldCount, heldBytes, watching, droppedWatchersTotal,
		logErrorsTotal)
	for _, v := range []v1alpha1.Verdict{v1alpha1.Admitted, v1alpha1.Refused, v1alpha1.Failed} {
		decisionsTotal.WithLabelValues(string(v)) // shown from the start, as 0
	}
})
