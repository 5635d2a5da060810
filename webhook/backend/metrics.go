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
		Help:           "Whether a webhook's endpoint isn't called because no connection can be made, by its name and address.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "address"})

	openedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "webhook_breaker_opened_total",
		Help:           "How often a webhook's endpoint began not to be called, by its name and address.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "address"})

	refusedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "gatehouse",
		Name:           "webhook_breaker_calls_total",
		Help:           "Calls that weren't made because no connection can be made to a webhook, by its name and address.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"server", "address"})
)

func init() { legacyregistry.MustRegister(openCount, openedTotal, refusedTotal) }
