package policy

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// validatingMetrics are upstream's (k8s.io/apiserver/pkg/admission/plugin/policy/validating/metrics).
// They are counted here because no observer of the chain sees each validation.
var validatingMetrics = sync.OnceValue(func() policyMetrics {
	return newPolicyMetrics("validating_admission_policy",
		"Validation admission policy check total, labeled by policy and further identified by binding and enforcement "+
			"action taken.",
		"Validation admission latency for individual validation expressions in seconds, labeled by policy and further "+
			"including binding and enforcement action taken.")
})

// policyMetrics count what validations, or mutations, came to.
type policyMetrics struct {
	checks    *metrics.CounterVec
	durations *metrics.HistogramVec
}

func newPolicyMetrics(subsystem, checks, durations string) policyMetrics {
	labels := []string{"policy", "policy_binding", "error_type", "enforcement_action"}
	return policyMetrics{
		checks: registered(metrics.NewCounterVec(&metrics.CounterOpts{Namespace: "apiserver", Subsystem: subsystem,
			Name: "check_total", Help: checks, StabilityLevel: metrics.BETA}, labels)),
		durations: registered(metrics.NewHistogramVec(&metrics.HistogramOpts{Namespace: "apiserver", Subsystem: subsystem,
			Name: "check_duration_seconds", Help: durations, StabilityLevel: metrics.BETA,
			Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1}}, labels)),
	}
}

// registered registers a metric. A process that Kubernetes' own API server is linked into has it
// already; then it is that one.
func registered[M metrics.Registerable](m M) M {
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

// observe counts a validation of a policy and what the binding made of it.
func observe(ctx context.Context, policy, binding string, d *decision, action string) {
	m, labels := validatingMetrics(), []string{policy, binding, d.errorType(), action}
	m.checks.WithContext(ctx).WithLabelValues(labels...).Inc()
	m.durations.WithContext(ctx).WithLabelValues(labels...).Observe(d.elapsed.Seconds())
}

// errorType is the label error_type. That of a violation is the same as that of an error, as it is
// upstream.
//
// Source: ErrorType in k8s.io/apiserver/pkg/admission/plugin/policy/validating/errors.go.
func (d *decision) errorType() string {
	switch {
	case strings.HasPrefix(d.message, "compilation"):
		return "compile_error"
	case strings.HasPrefix(d.message, "validation failed due to running out of cost budget"):
		return "out_of_budget"
	}
	return "invalid_error"
}
