// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The results of an estimate in the metric.
const (
	resultEstimated = "estimated"
	resultTooFew    = "not_enough_data"
	resultFailed    = "source_failed"
)

var estimatesTotal = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem: "gatehouse_initial_resources",
	Name:      "estimates_total",
	Help: "Resources of containers that were to be estimated, by resource (cpu, memory) and result: estimated, " +
		"not_enough_data, " +
		"or source_failed where Prometheus gave no answer in time.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resource", "result"})

// registerMetrics registers the metrics once per process: servers in one process share their
// metrics, as in all of Kubernetes.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(estimatesTotal) })
