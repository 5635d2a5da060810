// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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
	// decisionsTotal are one metric. A vector would look each up by its label, at each request.
	decisionsTotal = map[v1alpha1.Verdict]*metrics.Counter{
		v1alpha1.Admitted: decisionsOf(v1alpha1.Admitted),
		v1alpha1.Refused:  decisionsOf(v1alpha1.Refused),
		v1alpha1.Failed:   decisionsOf(v1alpha1.Failed),
	}

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
	for _, total := range decisionsTotal {
		legacyregistry.MustRegister(total)
	}
	legacyregistry.MustRegister(evictedTotal, heldCount, heldBytes, watching, droppedWatchersTotal,
		logErrorsTotal)
})

func decisionsOf(verdict v1alpha1.Verdict) *metrics.Counter {
	return metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "decisions_total",
		Help:           "Decisions that were recorded, by verdict: Admitted, Refused or Failed.",
		ConstLabels:    map[string]string{"verdict": string(verdict)},
		StabilityLevel: metrics.ALPHA,
	})
}
