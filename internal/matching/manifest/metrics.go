// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	metricsNamespace = "apiserver"
	metricsSubsystem = "manifest_admission_config_controller"
)

// The metrics are upstream's (k8s.io/apiserver/pkg/admission/plugin/manifest/metrics). They are
// counted here because no observer of the chain sees a reload.
var (
	reloadsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: metricsNamespace,
		Subsystem: metricsSubsystem,
		Name:      "automatic_reloads_total",
		Help: "Number of times that admission manifests were loaded, by status, plugin and API server " +
			"identity.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"status", "plugin", "apiserver_id_hash"})

	reloadTime = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: metricsNamespace,
		Subsystem: metricsSubsystem,
		Name:      "automatic_reload_last_timestamp_seconds",
		Help: "Time at which admission manifests were last loaded, by status, plugin and API server " +
			"identity.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"status", "plugin", "apiserver_id_hash"})

	configInfo = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "last_config_info",
		Help:           "The hash of the admission manifests in force, by plugin and API server identity; always 1.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"plugin", "apiserver_id_hash", "hash"})

	registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(reloadsTotal, reloadTime, configInfo) })
)

// reloadMetrics counts the reloads of the manifests of one plugin.
type reloadMetrics struct {
	plugin          string
	apiServerIDHash string
}

func (m reloadMetrics) count(status string) {
	registerMetrics()
	reloadsTotal.WithLabelValues(status, m.plugin, m.apiServerIDHash).Inc()
	reloadTime.WithLabelValues(status, m.plugin, m.apiServerIDHash).SetToCurrentTime()
}

// recordSuccess records that manifests with the hash have replaced those with the hash before.
func (m reloadMetrics) recordSuccess(before, hash string) {
	m.count("success")
	configInfo.DeleteLabelValues(m.plugin, m.apiServerIDHash, before)
	configInfo.WithLabelValues(m.plugin, m.apiServerIDHash, hash).Set(1)
}

func (m reloadMetrics) recordFailure() { m.count("failure") }
