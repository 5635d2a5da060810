// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	openCount = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      "gatehouse",
		Name:           "webhook_breaker_open",
		Help:           "Whether a webhook's backend isn't called because it doesn't answer, by its name and address.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "address"})

	openedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "webhook_breaker_opened_total",
		Help:           "How often a webhook's backend began not to be called, by its name and address.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "address"})

	refusedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "webhook_breaker_calls_total",
		Help:           "Calls that weren't made because a webhook's backend doesn't answer, by its name and address.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "address"})
)

func init() { legacyregistry.MustRegister(openCount, openedTotal, refusedTotal) }
