// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// auditPolicy logs what the audit test does, once it is done.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  namespaces: [audit]
- level: None
`

// auditLog is the shared server's audit log file.
var auditLog string

func withAudit(dir string) gatehousetest.Option {
	return gatehousetest.WithConfig(func(c *server.Config) {
		policy := filepath.Join(dir, "policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			panic(err)
		}
		auditLog = filepath.Join(dir, "audit.log")
		c.API.Audit.PolicyFile = policy
		c.API.Audit.LogOptions.Path = auditLog
	})
}

// warnings is a client's WarningHandler.
type warnings struct{ got []string }

func (w *warnings) HandleWarningHeader(code int, agent, text string) {
	w.got = append(w.got, fmt.Sprintf("%d %s %s", code, agent, text))
}

func TestAuditAnnotationsAndWarnings(t *testing.T) {
	namespace := shared.namespace(t, "audit")
	first.during(t, namespace, hook{
		admit: func(ctx context.Context, a admission.Attributes) error {
			if _, ok := a.GetObject().(*corev1.ConfigMap); !ok {
				return nil
			}
			warning.AddWarning(ctx, "", `mind the "gap"`)
			return a.AddAnnotation("probe.example.com/admitted", "mutating")
		},
		validate: func(ctx context.Context, a admission.Attributes) error {
			object, ok := a.GetObject().(*corev1.ConfigMap)
			if !ok {
				return nil
			}
			warning.AddWarning(ctx, "", "seen twice")
			if err := a.AddAnnotation("probe.example.com/validated", object.Name); err != nil {
				return err
			}
			if object.Name == "refused" {
				return admission.NewForbidden(a, errors.New("no"))
			}
			return nil
		},
	})

	// As it is on the wire, and as a client's program gets it.
	a := shared.send(t, request{method: "POST", path: "/api/v1/namespaces/audit/configmaps", contentType: jsonType,
		body: []byte(`{"metadata":{"name":"raw"}}`)})
	a.wantCode(t, http.StatusCreated)
	if diff := cmp.Diff([]string{`299 - "mind the \"gap\""`, `299 - "seen twice"`},
		a.header.Values("Warning")); diff != "" {
		t.Errorf("Warning headers (-want +got):\n%s", diff)
	}
	config := rest.CopyConfig(shared.Config)
	handler := &warnings{}
	config.WarningHandler = handler
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "client"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "refused"}},
		metav1.CreateOptions{})
	wantError(t, err, http.StatusForbidden, metav1.StatusReasonForbidden, `configmaps "refused" is forbidden: no`)
	want := []string{`299 - mind the "gap"`, "299 - seen twice", `299 - mind the "gap"`, "299 - seen twice"}
	if diff := cmp.Diff(want, handler.got); diff != "" {
		t.Errorf("the client was warned (-want +got):\n%s", diff)
	}

	// An event is written when its answer has been sent.
	events := map[string]auditv1.Event{}
	servertest.Eventually(t, "all requests to be in the audit log", func() bool {
		data, err := os.ReadFile(auditLog)
		if err != nil {
			return false
		}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			var event auditv1.Event
			if json.Unmarshal(lines.Bytes(), &event) == nil && event.Verb == "create" &&
				event.ObjectRef.Resource == "configmaps" {
				events[event.ObjectRef.Name] = event
			}
		}
		return events["raw"].ResponseStatus != nil && events["client"].ResponseStatus != nil &&
			events["refused"].ResponseStatus != nil
	})
	for name, code := range map[string]int32{"raw": 201, "client": 201, "refused": 403} {
		event := events[name]
		if event.ResponseStatus.Code != code || event.User.Username != "kubernetes-admin" {
			t.Errorf("the event of %s is %+v", name, event)
		}
		for annotation, want := range map[string]string{
			"probe.example.com/admitted": "mutating", "probe.example.com/validated": name,
			"authorization.k8s.io/decision": "allow",
		} {
			if got := event.Annotations[annotation]; got != want {
				t.Errorf("the annotation %s of %s is %q, want %q", annotation, name, got, want)
			}
		}
	}
}

// metrics reads /metrics.
func metrics(t *testing.T) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	a := shared.send(t, request{method: "GET", path: "/metrics"})
	a.wantCode(t, http.StatusOK)
	for line := range strings.Lines(string(a.body)) {
		if end := strings.LastIndexByte(line, ' '); end > 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
			if err != nil {
				t.Fatal(err)
			}
			values[line[:end]] = value
		}
	}
	return values
}

// Names and labels are those of kubernetes.io/docs/reference/instrumentation/metrics.
func TestAdmissionMetrics(t *testing.T) {
	namespace := shared.namespace(t, "metrics")
	refuse := func(_ context.Context, a admission.Attributes) error {
		if a.GetName() == "refused" {
			return admission.NewForbidden(a, errors.New("no"))
		}
		return nil
	}
	const plugin = `apiserver_admission_controller_admission_duration_seconds_count{name="%s",operation="%s",` +
		`rejected="%t",type="%s"}`
	const step = `apiserver_admission_step_admission_duration_seconds_count{operation="%s",rejected="%t",type="%s"}`
	const summary = `apiserver_admission_step_admission_duration_seconds_summary_count{operation="%s",rejected="%t",` +
		`type="%s"}`
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	create := func(name string) request {
		return request{method: "POST", path: path, contentType: jsonType,
			body: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)}
	}
	for _, test := range []struct {
		name    string
		hook    hook
		request request
		code    int
		counts  []string
	}{
		{"admitted", hook{}, create("admitted"), 201, []string{
			fmt.Sprintf(plugin, "ProbeFirst", "CREATE", false, "admit"),
			fmt.Sprintf(plugin, "ProbeFirst", "CREATE", false, "validate"),
			fmt.Sprintf(plugin, "NamespaceLifecycle", "CREATE", false, "admit"),
			fmt.Sprintf(step, "CREATE", false, "admit"), fmt.Sprintf(step, "CREATE", false, "validate"),
			fmt.Sprintf(summary, "CREATE", false, "validate"),
		}},
		{"refused while mutating", hook{admit: refuse}, create("refused"), 403, []string{
			fmt.Sprintf(plugin, "ProbeFirst", "CREATE", true, "admit"), fmt.Sprintf(step, "CREATE", true, "admit"),
		}},
		{"refused while validating", hook{validate: refuse}, create("refused"), 403, []string{
			fmt.Sprintf(plugin, "ProbeFirst", "CREATE", true, "validate"),
			fmt.Sprintf(step, "CREATE", true, "validate"), fmt.Sprintf(summary, "CREATE", true, "validate"),
		}},
		{"delete", hook{}, request{method: "DELETE", path: path + "/admitted"}, 200, []string{
			fmt.Sprintf(plugin, "ProbeFirst", "DELETE", false, "validate"),
			fmt.Sprintf(step, "DELETE", false, "validate"),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			first.during(t, namespace, test.hook)
			before := metrics(t)
			shared.send(t, test.request).wantCode(t, test.code)
			after := metrics(t)
			for _, name := range test.counts {
				// Controllers write at the same time.
				if after[name] < before[name]+1 {
					t.Errorf("%s was %v, is %v", name, before[name], after[name])
				}
			}
		})
	}
}
