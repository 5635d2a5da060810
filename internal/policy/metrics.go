// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// validatingMetrics returns upstream's metrics
// (k8s.io/apiserver/pkg/admission/plugin/policy/validating/metrics). They are counted here because
// no observer of the chain sees each validation.
var validatingMetrics = sync.OnceValue(func() policyMetrics {
	return newPolicyMetrics("validating_admission_policy",
		"Validation admission policy check total, labeled by policy and further identified by binding and enforcement "+
			"action taken.",
		"Validation admission latency for individual validation expressions in seconds, labeled by policy and further "+
			"including binding and enforcement action taken.", metrics.BETA, "enforcement_action")
})

// mutatingMetrics returns the metrics of
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/metrics.
var mutatingMetrics = sync.OnceValue(func() policyMetrics {
	return newPolicyMetrics("mutating_admission_policy",
		"Mutation admission policy check total, labeled by policy and further identified by binding.",
		"Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
		metrics.ALPHA)
})

// policyMetrics counts the results of validations or mutations, and how long they take.
type policyMetrics struct {
	checks    *metrics.CounterVec
	durations *metrics.HistogramVec
}

func newPolicyMetrics(subsystem, checks, durations string, stability metrics.StabilityLevel,
	extraLabels ...string) policyMetrics {
	labels := append([]string{"policy", "policy_binding", "error_type"}, extraLabels...)
	return policyMetrics{
		checks: register(metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "apiserver", Subsystem: subsystem,
			Name: "check_total", Help: checks, StabilityLevel: stability}, labels)),
		durations: register(metrics.NewHistogramVec(&metrics.HistogramOpts{Namespace: "apiserver",
			Subsystem: subsystem,
			Name:      "check_duration_seconds", Help: durations, StabilityLevel: stability,
			Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1}}, labels)),
	}
}

// register registers a metric and returns it. If the process also contains Kubernetes' own API
// server, the metric may be registered already; then register returns that one.
func register[M metrics.Registerable](m M) M {
	err := legacyregistry.Register(m)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(M); ok {
			return existing
		}
	}
	if err != nil {
		panic(err) // two metrics of one name in one program
	}
	return m
}

func (m policyMetrics) observe(ctx context.Context, took time.Duration, labels ...string) {
	m.checks.WithContext(ctx).WithLabelValues(labels...).Inc()
	m.durations.WithContext(ctx).WithLabelValues(labels...).Observe(took.Seconds())
}

// observeValidation counts a validation of a policy and the action that the binding took.
func observeValidation(ctx context.Context, policy, binding string, d *decision, action string) {
	validatingMetrics().observe(ctx, d.elapsed, policy, binding, errorType(d.message), action)
}

// observeMutation counts a mutation of a policy.
func observeMutation(ctx context.Context, policy, binding string, took time.Duration, err error) {
	label := "no_error"
	if err != nil {
		label = errorType(err.Error())
	}
	mutatingMetrics().observe(ctx, took, policy, binding, label)
}

// errorType returns the label error_type for the text of an error. As upstream, a violation has the
// same label as an error.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/errors.go#ErrorType 25689c11
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/errors.go#ErrorType 03683ed8
func errorType(message string) string {
	switch {
	case strings.HasPrefix(message, "compilation"):
		return "compile_error"
	case strings.HasPrefix(message, "validation failed due to running out of cost budget"):
		return "out_of_budget"
	}
	return "invalid_error"
}
