// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var droppedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "gatehouse",
	Name:      "record_dropped_total",
	Help: "Requests that are missing in the file of --record, by reason: disk if it couldn't be written, queue if " +
		"too many waited for it.",
	StabilityLevel: metrics.ALPHA,
}, []string{"reason"})

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(droppedTotal)
	for _, reason := range []string{"disk", "queue"} {
		droppedTotal.WithLabelValues(reason) // so that it is 0, and not missing
	}
})

func onDiskError() { droppedTotal.WithLabelValues("disk").Inc() }
