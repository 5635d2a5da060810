// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	policyconfig "k8s.io/apiserver/pkg/admission/plugin/policy/config/apis/policyconfig/v1"
	upstreammutating "k8s.io/apiserver/pkg/admission/plugin/policy/mutating/metrics"
	upstreamvalidating "k8s.io/apiserver/pkg/admission/plugin/policy/validating/metrics"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"gatehouse.dev/internal/kubesource"
)

const policySource = "k8s.io/apiserver/pkg/admission/plugin/policy/"

func TestCodesAreUpstreams(t *testing.T) {
	ours := kubesource.Cases(kubesource.Parse(t, "refusal.go").Func("statusCode"))
	theirs := kubesource.Cases(kubesource.Parse(t, policySource+"validating/policy_decision.go").Func("reasonToCode"))
	const invalid = "http.StatusUnprocessableEntity" // what statusCode returns of all reasons that it has no case for
	maps.DeleteFunc(theirs, func(_, code string) bool { return code == invalid })
	if len(ours) == 0 || !maps.Equal(ours, theirs) {
		t.Errorf("codes of reasons are\n%v\nupstream's are\n%v", ours, theirs)
	}
}

func TestBoundsAreUpstreams(t *testing.T) {
	waits := kubesource.Parse(t, policySource+"generic/policy_dispatcher.go").Calls("context.WithTimeout")
	if len(waits) != 2 {
		t.Fatalf("upstream has %d timeouts", len(waits))
	}
	for name, test := range map[string]struct {
		got  int64
		want ast.Expr
	}{
		"maxAnnotation": {maxAnnotation,
			kubesource.Parse(t, policySource+"validating/dispatcher.go").Value("maxAuditAnnotationValueLength")},
		"paramRetry": {int64(paramRetry),
			kubesource.Parse(t, policySource+"generic/policy_source.go").Value("policyRefreshIntervalDefault")},
		"syncTimeout": {int64(syncTimeout), waits[0].Args[1]},
		"readTimeout": {int64(readTimeout), waits[1].Args[1]},
		"maxFailures": {maxFailures,
			kubesource.Parse(t, policySource+"validating/dispatcher.go").Value("maxValidationFailures")},
	} {
		if test.got != kubesource.Number(test.want) {
			t.Errorf("%s is %d, upstream's is %s", name, test.got, kubesource.Text(test.want))
		}
	}
}

func TestConfigurationKindsAreUpstreams(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := policyconfig.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kinds := scheme.KnownTypes(policyconfig.SchemeGroupVersion)
	for _, kind := range []string{"ValidatingAdmissionPolicyConfiguration", "MutatingAdmissionPolicyConfiguration"} {
		if kinds[kind] == nil {
			t.Errorf("upstream has no %s in %s", kind, policyconfig.SchemeGroupVersion)
		}
		document := fmt.Sprintf("{apiVersion: %s, kind: %s, staticManifestsDir: /d}", policyconfig.SchemeGroupVersion, kind)
		if dir, err := manifestsDir(bytes.NewBufferString(document), kind); dir != "/d" || err != nil {
			t.Errorf("%s: got %q, %v", document, dir, err)
		}
	}
}

// The metrics are upstream's in a program that has upstream's. Registering them would panic if a help or the
// labels differed, and they would not count together if the names did.
func TestMetricsAreUpstreams(t *testing.T) {
	count := func(c *metrics.CounterVec, labels ...string) float64 {
		value, err := testutil.GetCounterMetricValue(c.WithLabelValues(labels...))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	before := count(validatingMetrics().checks, "p", "upstream", "no_error", "allow")
	upstreamvalidating.Metrics.ObserveAdmission(t.Context(), time.Second, "p", "upstream", "no_error")
	if got := count(validatingMetrics().checks, "p", "upstream", "no_error", "allow") - before; got != 1 {
		t.Errorf("a validation that upstream counted is counted %v times", got)
	}
	before = count(mutatingMetrics().checks, "p", "upstream", "no_error")
	upstreammutating.Metrics.ObserveAdmission(t.Context(), time.Second, "p", "upstream", "no_error")
	if got := count(mutatingMetrics().checks, "p", "upstream", "no_error") - before; got != 1 {
		t.Errorf("a mutation that upstream counted is counted %v times", got)
	}
}
