// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// auditLog is the shared server's, in which ConfigMaps that are created are.
var auditLog string

// audited has the shared server write it.
func audited(c *server.Config) {
	dir, err := os.MkdirTemp("", "gatehouse-audit-")
	if err != nil {
		suite.Fatal(err)
	}
	suite.Cleanup(func() { os.RemoveAll(dir) })
	c.API.Audit.PolicyFile = filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(c.API.Audit.PolicyFile, []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [configmaps]}]}
- level: None
`), 0o600); err != nil {
		suite.Fatal(err)
	}
	auditLog = filepath.Join(dir, "audit.log")
	c.API.Audit.LogOptions.Path = auditLog
}

// auditedAnnotations are those of policies in the event of the ConfigMap's creation.
func auditedAnnotations(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	// An event is written when its answer has been sent.
	servertest.Retry(t, "the creation of "+ns+"/"+name+" in the audit log", func() error {
		content, err := os.ReadFile(auditLog)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(content) {
			var event auditv1.Event
			if json.Unmarshal(line, &event) != nil || event.ObjectRef.Namespace != ns || event.ObjectRef.Name != name {
				continue
			}
			for key, value := range event.Annotations {
				if !strings.HasPrefix(key, "authorization.k8s.io/") &&
					!strings.HasPrefix(key, "admission.gatehouse.dev/") {
					found[key] = value
				}
			}
			return nil
		}
		return errors.New("there is none")
	})
	return found
}

// names are the labels of a policy and its binding.
var names = regexp.MustCompile(`,policy(_binding)?="[^"]*"`)

// policyChecks are the counters of a policy's validations or mutations, by their labels but for
// names.
func policyChecks(t *testing.T, policy string) map[string]int {
	t.Helper()
	body, err := cluster.Client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	counted := map[string]int{}
	for line := range strings.Lines(string(body)) {
		labels, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.Contains(labels, fmt.Sprintf("policy=%q", policy)) {
			continue
		}
		metric, labels, _ := strings.Cut(labels, "{")
		if metric = strings.TrimPrefix(metric, "apiserver_"); !strings.HasSuffix(metric, "_check_total") &&
			!strings.HasSuffix(metric, "_check_duration_seconds_count") {
			continue
		}
		n, err := strconv.Atoi(value)
		must(t, err)
		counted[metric+" "+names.ReplaceAllString(labels, "")] = n
	}
	return counted
}

// warnings is a client's WarningHandler.
type warnings struct {
	mu  sync.Mutex
	got []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, text)
}

// What a policy came to is told where Kubernetes tells it: answer, warnings, audit event, metrics.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidateAnnotationsAndWarnings 4e10f237
func TestReports(t *testing.T) {
	const (
		failure  = "validation.policy.admission.k8s.io/validation_failure"
		onParams = `paramKind: {apiVersion: v1, kind: ConfigMap}, `
		failing  = `validations: [{expression: "true"}, {expression: "object.metadata.name.endsWith('k8s')"}]`
		failed   = "failed expression: object.metadata.name.endsWith('k8s')"
		// unreadable is an error as params is null.
		unreadable = `auditAnnotations: [{key: k, valueExpression: "string(params.metadata.name)"}]`
		noParams   = "expression 'string(params.metadata.name)' resulted in error: no such key: metadata"
	)
	for name, test := range map[string]struct {
		spec, binding string
		// In what is wanted POLICY is the name of the policy and of its binding.
		refused     string
		warnings    []string
		annotations map[string]string
		checks      []string
	}{
		"audit annotations": {
			spec: onParams + `auditAnnotations: [
				{key: example, valueExpression: "'object name: ' + object.metadata.name"},
				{key: exclude, valueExpression: "null"}]`,
			annotations: map[string]string{"POLICY/example": "object name: c"}},
		"audit annotations in error": {
			spec: onParams + unreadable, refused: "denied request: " + noParams,
			checks: []string{`enforcement_action="deny",error_type="invalid_error"`}},
		"that are ignored": {spec: onParams + "failurePolicy: Ignore, " + unreadable},
		"Warn": {
			spec: failing, binding: "validationActions: [Warn]",
			warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'POLICY' with binding 'POLICY': " +
				failed},
			checks: []string{`enforcement_action="warn",error_type="invalid_error"`}},
		"Audit": {
			spec: failing, binding: "validationActions: [Audit]",
			annotations: map[string]string{failure: `[{"message":"` + failed + `","policy":"POLICY",` +
				`"binding":"POLICY","expressionIndex":1,"validationActions":["Audit"]}]`},
			checks: []string{`enforcement_action="audit",error_type="invalid_error"`}},
		"Deny and Audit": {
			spec: failing, binding: "validationActions: [Deny, Audit]", refused: "denied request: " + failed,
			annotations: map[string]string{failure: `[{"message":"` + failed + `","policy":"POLICY",` +
				`"binding":"POLICY","expressionIndex":1,"validationActions":["Deny","Audit"]}]`},
			checks: []string{`enforcement_action="audit",error_type="invalid_error"`,
				`enforcement_action="deny",error_type="invalid_error"`}},
		"an error that is ignored": {
			spec:   `failurePolicy: Ignore, validations: [{expression: "object.nope == 'x'"}]`,
			checks: []string{`enforcement_action="allow",error_type="invalid_error"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			// The conditions leave alone what controllers make. A second policy, which came later,
			// shows that this one is in force.
			policy := validate(t, ns, onConfigMaps, test.spec+
				`, matchConditions: [{name: c, expression: "object.metadata.name == 'c'"}]`, test.binding)
			validate(t, ns, onConfigMaps, `matchConditions: [{name: probe, expression: "object.metadata.name == 'probe'"}],
				validations: [{expression: "false", message: in force}]`, "")
			becomes(t, "in force", func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "probe") })
			config := rest.CopyConfig(cluster.Config)
			var warned warnings
			config.WarningHandler = &warned
			before := policyChecks(t, policy)
			_, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(ns).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
			if err := is(err, test.refused); err != nil {
				t.Error(err)
			}
			named := func(text string) string { return strings.ReplaceAll(text, "POLICY", policy) }
			for i := range test.warnings {
				test.warnings[i] = named(test.warnings[i])
			}
			if !slices.Equal(warned.got, test.warnings) {
				t.Errorf("warnings are %q, want %q", warned.got, test.warnings)
			}
			want := map[string]string{}
			for key, value := range test.annotations {
				want[named(key)] = named(value)
			}
			if diff := cmp.Diff(want, auditedAnnotations(t, ns, "c")); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			counted := policyChecks(t, policy)
			maps.DeleteFunc(counted, func(labels string, n int) bool { return before[labels] == n })
			checks := map[string]int{}
			for _, labels := range test.checks {
				checks["validating_admission_policy_check_total "+labels] = 1
				checks["validating_admission_policy_check_duration_seconds_count "+labels] = 1
			}
			if diff := cmp.Diff(checks, counted); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// Mutations are counted by what became of them.
func TestMutationsAreCounted(t *testing.T) {
	ns := namespace(t)
	create(t, ns, mutatingPolicy{name: "a", ignore: true,
		conditions: []string{"!has(object.metadata.labels)"},
		mutations: mutations{`Object{data: {"k": object.nope}}`,
			`Object{metadata: Object.metadata{annotations: {"a": "b"}}}`}})
	before := policyChecks(t, ns+"-a")
	got, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	must(t, err)
	if got.Annotations["a"] != "b" {
		t.Errorf("annotations are %v", got.Annotations)
	}
	counted := policyChecks(t, ns+"-a")
	for labels, n := range before {
		counted[labels] -= n
	}
	if diff := cmp.Diff(map[string]int{
		`mutating_admission_policy_check_total error_type="invalid_error"`:                  1,
		`mutating_admission_policy_check_duration_seconds_count error_type="invalid_error"`: 1,
		// The first is that of all policies in these tests, for the probe.
		`mutating_admission_policy_check_total error_type="no_error"`:                  2,
		`mutating_admission_policy_check_duration_seconds_count error_type="no_error"`: 2,
	}, counted); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
