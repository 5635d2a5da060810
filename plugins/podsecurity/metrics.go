// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/pod-security-admission/api"
)

// The metrics are upstream's, in k8s.io/pod-security-admission/metrics.
var (
	evaluationsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "pod_security_evaluations_total",
		Help:           "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"})

	exemptionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "pod_security_exemptions_total",
		Help:           "Number of exempt requests, not counting ignored or out of scope requests.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"request_operation", "resource", "subresource"})

	errorsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "pod_security_errors_total",
		Help: "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted " +
			"profile being used for evaluation.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"fatal", "request_operation", "resource", "subresource"})
)

// subject is the name of a resource in the metrics.
type subject string

const (
	pods      subject = "pod"
	templates subject = "controller"
)

// exemptionLabels holds the labels of an exemption.
type exemptionLabels struct {
	operation, resource, subresource string
}

// frequentCounters holds counters that are looked up once: most requests count in them, and a look-up by labels
// takes longer than such a request's decision. As upstream's, they are there from the start, at 0.
type frequentCounters struct {
	privilegedPods map[admission.Operation]metrics.CounterMetric
	exemptions     map[exemptionLabels]metrics.CounterMetric
}

var frequent atomic.Pointer[frequentCounters]

// lookUpFrequent looks the frequent counters up.
func lookUpFrequent() {
	f := &frequentCounters{map[admission.Operation]metrics.CounterMetric{}, map[exemptionLabels]metrics.CounterMetric{}}
	for _, operation := range []admission.Operation{admission.Create, admission.Update} {
		f.privilegedPods[operation] = evaluationsTotal.WithLabelValues("allow", string(api.LevelPrivileged),
			api.VersionLatest, string(enforce), operationLabel(operation), string(pods), "")
		for _, subject := range []subject{pods, templates} {
			of := exemptionLabels{operationLabel(operation), string(subject), ""}
			f.exemptions[of] = exemptionsTotal.WithLabelValues(of.operation, of.resource, of.subresource)
		}
	}
	frequent.Store(f)
}

// resettable is a counter whose frequent ones are looked up again when it is reset, as by DELETE /metrics.
type resettable struct{ *metrics.CounterVec }

// Reset deletes all counts.
func (r resettable) Reset() {
	r.CounterVec.Reset()
	lookUpFrequent()
}

// registerMetrics registers the metrics once per process: servers in one process share their
// metrics, as in all of Kubernetes.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(resettable{evaluationsTotal}, resettable{exemptionsTotal}, errorsTotal)
	lookUpFrequent()
})

// count counts a verdict in the metrics. newest is the newest version that has its own label:
// namespaces can name any number of versions.
func (v *verdict) count(a admission.Attributes, of subject, newest api.Version) {
	if v == allPrivileged && a.GetSubresource() == "" {
		frequent.Load().privilegedPods[a.GetOperation()].Inc()
		return
	}
	operation, resource, subresource := operationLabel(a.GetOperation()), string(of), a.GetSubresource()
	if v.exempt {
		labels := exemptionLabels{operation, resource, subresource}
		if counter, ok := frequent.Load().exemptions[labels]; ok {
			counter.Inc()
		} else {
			exemptionsTotal.WithLabelValues(operation, resource, subresource).Inc()
		}
	}
	if v.failed != none {
		errorsTotal.WithLabelValues(strconv.FormatBool(v.failed == fatal), operation, resource, subresource).Inc()
	}
	for _, e := range v.evaluations {
		decision := "allow"
		if e.violated {
			decision = "deny"
		}
		evaluationsTotal.WithLabelValues(decision, string(e.against.Level), versionLabel(e.against, newest),
			string(e.mode), operation, resource, subresource).Inc()
	}
}

// operationLabel returns the label of one of the two operations that the plugin handles.
func operationLabel(operation admission.Operation) string {
	if operation == admission.Update {
		return "update"
	}
	return "create"
}

func versionLabel(against api.LevelVersion, newest api.Version) string {
	switch {
	case against.Level == api.LevelPrivileged || against.Version.Latest():
		return api.VersionLatest
	case newest.Older(against.Version):
		return "future"
	default:
		return against.Version.String()
	}
}
