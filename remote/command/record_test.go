// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/review/record"
	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/registration"
	"gatehouse.dev/webhook/server"
)

// A request is recorded once, though API servers ask about it in several calls: by the first
// validating call that is about it, or else by the first mutating one. Refusals are always recorded.
func TestEachRequestIsRecordedOnce(t *testing.T) {
	describe := func(name string, phases plugin.Phase, resource string) plugin.Descriptor {
		return plugin.Descriptor{Name: name, Phases: phases, Operations: []admission.Operation{admission.Create},
			Resources: plugin.On(corev1.Resource(resource))}
	}
	o := &registration.Options{Plugins: []plugin.Descriptor{describe("Both", plugin.Mutating|plugin.Validating, "pods"),
		describe("Change", plugin.Mutating, "services"), describe("Ignored", plugin.Validating, "pods")},
		FailurePolicy: map[string]admissionregistrationv1.FailurePolicyType{"Ignored": admissionregistrationv1.Ignore}}
	path := filepath.Join(t.TempDir(), "record.log")
	log, err := (&record.Options{Path: path}).Open()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{registration: o, record: log}
	allow := func(context.Context, *admissionv1.AdmissionRequest) (server.Response, error) {
		return server.Allowed(), nil
	}
	refuse := func(context.Context, *admissionv1.AdmissionRequest) (server.Response, error) {
		return server.Denied("no"), nil
	}
	fail := func(context.Context, *admissionv1.AdmissionRequest) (server.Response, error) {
		return server.Response{}, errors.New("it lacks something")
	}
	ask := func(resource, name, call string, decide server.FallibleHandler) {
		r := &admissionv1.AdmissionRequest{Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource},
			Operation: admissionv1.Create, Name: name + " by " + call}
		r.Object.Raw = []byte(`{"kind":"X","apiVersion":"v1","metadata":{"uid":"u"}}`)
		for _, c := range registration.Calls(o) {
			if c.Path == call {
				_, _ = w.recorded(decide, &c)(t.Context(), r)
			}
		}
	}
	for _, call := range []string{"/mutate", "/validate", "/validate/ignore"} {
		ask("pods", "admitted", call, allow)
	}
	ask("services", "changed", "/mutate", allow)
	ask("pods", "refused", "/mutate", refuse)
	ask("pods", "refused", "/validate/ignore", refuse)
	ask("pods", "failed", "/validate", fail)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	type line struct {
		Name    string
		Stored  bool
		Outcome recorded.Outcome
		Code    int32
	}
	var got []line
	r, err := recorded.Open(t.Context(), []string{path}, recorded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		next, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		q := next.Decode()
		if q.Unjudged != "" || q.Time.IsZero() {
			t.Errorf("%s: %s, time %s", q.Name, q.Unjudged, q.Time)
		}
		got = append(got, line{q.Name, q.Stored, q.Recorded.Outcome, q.Recorded.Code})
	}
	if diff := cmp.Diff([]line{
		{"admitted by /validate", true, recorded.Admitted, 0},
		{"changed by /mutate", false, recorded.Admitted, 0},
		{"refused by /mutate", false, recorded.Refused, 403},
		{"refused by /validate/ignore", true, recorded.Refused, 403},
		{"failed by /validate", true, recorded.Failed, 500},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
