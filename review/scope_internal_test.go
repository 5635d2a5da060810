// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// A rule for a resource with all its subresources is one for the resource, too.
func TestScopeOfRules(t *testing.T) {
	pods, deployments := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, test := range []struct {
		resources, operations  []any
		pods, logs, deployment bool // the creation of pods, the read of logs, and whether Deployments are audited
	}{
		{[]any{"pods"}, []any{"CREATE"}, true, false, true},
		{[]any{"pods/*"}, []any{"*"}, true, true, true},
		{[]any{"pods/log"}, []any{"*"}, false, true, false},
		{[]any{"*"}, []any{"CREATE"}, true, false, true},
		{[]any{"*/*"}, []any{"*"}, true, true, true},
		{[]any{"pods"}, []any{"DELETE"}, false, false, false},
		{[]any{"deployments"}, []any{"UPDATE"}, false, false, true},
	} {
		s := &scope{}
		s.addRules([]any{map[string]any{"apiGroups": []any{"", "apps"}, "resources": test.resources,
			"operations": test.operations}}, true)
		if s.matchesRequest(pods, "", "CREATE") != test.pods || s.matchesRequest(pods, "log", "CONNECT") != test.logs ||
			s.has(deployments) != test.deployment {
			t.Errorf("%v %v: pods %v, logs %v, Deployments %v", test.resources, test.operations,
				s.matchesRequest(pods, "", "CREATE"), s.matchesRequest(pods, "log", "CONNECT"), s.has(deployments))
		}
	}
}

// What a replaced policy refused may be admitted by the one that replaces it.
func TestScopeOfReplaced(t *testing.T) {
	policy := func(resource string) string {
		return `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {matchConstraints:
{resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [` + resource + `], operations: [CREATE]}]}, validations: [{expression: "false"}]}}`
	}
	config := func() *server.Config {
		c := server.NewConfig(plugins.List)
		c.Admission.Only = PolicyPlugins(plugins.List)
		return c
	}
	read := func(text string) TrialOptions {
		documents, errs := Read([]string{"-"}, strings.NewReader(text))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return TrialOptions{Options: Options{Config: config()}, Candidate: documents, Before: config()}
	}
	options := read(policy("secrets"))
	options.State = read(policy("configmaps")).Candidate
	trial, err := StartTrial(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Close()
	s, err := trial.scopeOf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for resource, want := range map[string]bool{"secrets": true, "configmaps": true, "services": false} {
		if got := s.matchesRequest(schema.GroupResource{Resource: resource}, "", "CREATE"); got != want {
			t.Errorf("%s: %v", resource, got)
		}
	}
}
