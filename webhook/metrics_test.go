// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"gatehouse.dev/internal/webhooktest"
)

// metricsOf are the series about a webhook, with their values; of histograms the count.
func metricsOf(t testing.TB, webhook string) []string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, m := range family.Metric {
			var labels []string
			about := false
			for _, l := range m.Label {
				if l.GetName() == "name" {
					about = l.GetValue() == webhook
					continue
				}
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			if about {
				value := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				all = append(all, fmt.Sprintf("%s %s %v", strings.TrimPrefix(family.GetName(), "apiserver_admission_"),
					strings.Join(labels, ","), value))
			}
		}
	}
	slices.Sort(all)
	return all
}

// Source: k8s.io/apiserver/pkg/admission/metrics, and how the dispatchers of
// k8s.io/apiserver/pkg/admission/plugin/webhook use it.
func TestMetrics(t *testing.T) {
	legacyregistry.Reset() // of an earlier run in this process
	allowing := webhooktest.New(t, webhooktest.Allow())
	denying := webhooktest.New(t, webhooktest.Deny(418, "no"))
	patching := webhooktest.New(t, webhooktest.Patch(`[{"op":"remove","path":"/nothing"}]`))
	broken := webhooktest.New(t, webhooktest.Status(503, "text/plain", "busy"))
	w := aWebhook("m-allowing", allowing.ClientConfig("/"))
	p := newPlugins(t, nil, mutatingConfiguration("c", w), validatingConfiguration("c", w))
	for range 2 {
		wantError(t, p.admit(t, newAttributes(create, newPod(), nil)), "")
	}
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil)), "")
	wantMetrics(t, "m-allowing",
		"webhook_admission_duration_seconds operation=CREATE,rejected=false,type=admit 2",
		"webhook_admission_duration_seconds operation=CREATE,rejected=false,type=validating 1",
		"webhook_request_total code=200,operation=CREATE,rejected=false,type=admit 2",
		"webhook_request_total code=200,operation=CREATE,rejected=false,type=validating 1",
	)

	p = newPlugins(t, nil, validatingConfiguration("c", aWebhook("m-denying", denying.ClientConfig("/"))))
	p.validate(t, newAttributes(create, newPod(), nil))
	wantMetrics(t, "m-denying",
		"webhook_admission_duration_seconds operation=CREATE,rejected=true,type=validating 1",
		"webhook_rejection_count error_type=no_error,operation=CREATE,rejection_code=418,type=validating 1",
		"webhook_request_total code=418,operation=CREATE,rejected=true,type=validating 1",
	)

	p = newPlugins(t, nil, mutatingConfiguration("c", aWebhook("m-patching", patching.ClientConfig("/"))))
	p.admit(t, newAttributes(create, newPod(), nil))
	wantMetrics(t, "m-patching",
		"webhook_admission_duration_seconds operation=CREATE,rejected=true,type=admit 1",
		"webhook_rejection_count error_type=apiserver_internal_error,operation=CREATE,rejection_code=0,type=admit 1",
		"webhook_request_total code=0,operation=CREATE,rejected=true,type=admit 1",
	)

	w = aWebhook("m-broken", broken.ClientConfig("/"))
	p = newPlugins(t, nil, mutatingConfiguration("c", w),
		validatingConfiguration("c", aWebhook("m-broken", broken.ClientConfig("/"), ignoringFailures)))
	p.admit(t, newAttributes(create, newPod(), nil))
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil)), "")
	wantMetrics(t, "m-broken",
		"webhook_admission_duration_seconds operation=CREATE,rejected=false,type=validating 1",
		"webhook_admission_duration_seconds operation=CREATE,rejected=true,type=admit 1",
		"webhook_fail_open_count type=validating 1",
		"webhook_rejection_count error_type=calling_webhook_error,operation=CREATE,rejection_code=503,type=admit 1",
		"webhook_request_total code=503,operation=CREATE,rejected=false,type=validating 1",
		"webhook_request_total code=503,operation=CREATE,rejected=true,type=admit 1",
	)

	// A Service that isn't found is no 404 of the webhook.
	w = aWebhook("m-nowhere",
		admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "ns",
			Name: "svc"}})
	p = newPlugins(t, nil, validatingConfiguration("c", w))
	p.validate(t, newAttributes(create, newPod(), nil))
	wantMetrics(t, "m-nowhere",
		"webhook_admission_duration_seconds operation=CREATE,rejected=true,type=validating 1",
		"webhook_rejection_count "+
			"error_type=calling_webhook_error,operation=CREATE,rejection_code=503,type=validating 1",
		"webhook_request_total code=503,operation=CREATE,rejected=true,type=validating 1",
	)

	w = aWebhook("m-conditions", allowing.ClientConfig("/"), when("object.nothing == 1", "false"))
	p = newPlugins(t, nil, mutatingConfiguration("c", w), validatingConfiguration("c", w))
	wantError(t, p.admit(t, newAttributes(create, newPod(), nil)), "")
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil)), "")
	wantMetrics(t, "m-conditions",
		"match_condition_evaluation_errors_total kind=webhook,operation=CREATE,type=admit 1",
		"match_condition_evaluation_errors_total kind=webhook,operation=CREATE,type=validating 1",
		"match_condition_evaluation_seconds kind=webhook,operation=CREATE,type=admit 1",
		"match_condition_evaluation_seconds kind=webhook,operation=CREATE,type=validating 1",
		"match_condition_exclusions_total kind=webhook,operation=CREATE,type=admit 1",
		"match_condition_exclusions_total kind=webhook,operation=CREATE,type=validate 1",
	)
}

func wantMetrics(t testing.TB, webhook string, want ...string) {
	t.Helper()
	if got := metricsOf(t, webhook); !slices.Equal(got, want) {
		t.Errorf("the metrics of %s are\n%s\nwant\n%s", webhook, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
