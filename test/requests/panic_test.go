// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// A plugin that panics costs the request that it panicked for, and nobody else anything.
func TestPanic(t *testing.T) {
	namespace := shared.namespace(t, "panic")
	panics := func(_ context.Context, a admission.Attributes) error {
		if object, ok := a.GetObject().(metav1.Object); ok && object.GetLabels()["panic"] == "please" {
			var none map[string]string
			none["the password"] = "is hunter2"
		}
		return nil
	}
	for phase, h := range map[string]hook{"mutating": {admit: panics}, "validating": {validate: panics}} {
		t.Run(phase, func(t *testing.T) {
			first.during(t, namespace, h)
			for verb, r := range map[string]request{
				"create": {method: "POST", path: "/api/v1/namespaces/panic/configmaps", contentType: "application/json",
					body: []byte(`{"metadata":{"name":"bad","labels":{"panic":"please"}}}`)},
				"update": {method: "PATCH", path: "/api/v1/namespaces/panic/configmaps/kept",
					contentType: "application/merge-patch+json",
					body:        []byte(`{"metadata":{"labels":{"panic":"please"}}}`)},
				"apply": {method: "PATCH", path: "/api/v1/namespaces/panic/configmaps/bad?fieldManager=test",
					contentType: "application/apply-patch+yaml",
					body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad",` +
						`"labels":{"panic":"please"}}}`)},
			} {
				t.Run(verb, func(t *testing.T) {
					kept := request{method: "PATCH", path: "/api/v1/namespaces/panic/configmaps/kept?fieldManager=test",
						contentType: "application/apply-patch+yaml",
						body:        []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept"}}`)}
					before := shared.send(t, kept)
					logged := log.size()

					a := shared.send(t, r)
					a.wantRefused(t, http.StatusInternalServerError, metav1.StatusReasonInternalError,
						`Internal error occurred: admission plugin "ProbeFirst" panicked in the `+phase+` phase`)
					for _, secret := range []string{"goroutine", "panic_test.go", "nil map"} {
						if strings.Contains(string(a.body), secret) {
							t.Errorf("the answer tells %q: %s", secret, a)
						}
					}
					entry := log.from(logged)
					for _, want := range []string{`"Admission plugin panicked"`, `plugin="ProbeFirst"`, `phase="` +
						phase + `"`, "panic_test.go", "assignment to entry in nil map"} {
						if !strings.Contains(entry, want) {
							t.Errorf("the log has no %s:\n%s", want, entry)
						}
					}
					shared.send(t, request{method: "GET", path: "/api/v1/namespaces/panic/configmaps/bad"}).
						wantRefused(t, http.StatusNotFound, metav1.StatusReasonNotFound, `configmaps "bad" not found`)
					// The next request works, and finds the object as it was.
					if after := shared.send(t, kept); before.code >= 300 || string(after.body) != string(before.body) {
						t.Errorf("the object was %s, is %s", before, after)
					}
				})
			}
		})
	}
	shared.wantReady(t)
}
