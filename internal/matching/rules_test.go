// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Source: the tests of k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
func TestRules(t *testing.T) {
	type operations = []admissionregistrationv1.OperationType
	pods := Target{Operation: create, Resource: gvr("", "v1", "pods"), Namespaced: true}
	sub := func(of Target, subresource string) Target { of.Subresource = subresource; return of }
	with := func(of Target, operation admission.Operation) Target { of.Operation = operation; return of }
	nodes := Target{Operation: create, Resource: gvr("", "v1", "nodes")}
	aNamespace := Target{Operation: create, Resource: gvr("", "v1", "namespaces"), Namespaced: true}
	deployments := Target{Operation: create, Resource: gvr("apps", "v1", "deployments"), Namespaced: true}

	for name, test := range map[string]struct {
		rule admissionregistrationv1.RuleWithOperations
		yes  []Target
		no   []Target
	}{
		"exactly": {aRule("CREATE", "", "v1", "pods"), []Target{pods},
			[]Target{with(pods, update), nodes, deployments, sub(pods, "status")}},
		"any operation": {aRule("*", "", "v1", "pods"),
			[]Target{pods, with(pods, update), with(pods, remove), with(pods, admission.Connect)}, []Target{nodes}},
		"connect": {aRule("CONNECT", "", "v1", "pods/exec"),
			[]Target{sub(with(pods, admission.Connect), "exec")},
			[]Target{sub(pods, "exec"), with(pods, admission.Connect)}},
		"any group": {aRule("*", "*", "v1", "*"), []Target{pods, nodes, deployments},
			[]Target{{Operation: create, Resource: gvr("apps", "v1beta1", "deployments")}}},
		"any version": {aRule("*", "apps", "*", "*"),
			[]Target{deployments, {Operation: create, Resource: gvr("apps", "v1beta1", "deployments")}},
			[]Target{pods}},
		"another group": {aRule("*", "apps", "v1", "pods"), nil, []Target{pods, deployments}},
		"any resource": {aRule("*", "", "v1", "*"), []Target{pods, nodes},
			[]Target{sub(pods, "status"), deployments}},
		"anything": {aRule("*", "*", "*", "*/*"),
			[]Target{pods, nodes, deployments, sub(pods, "status"), sub(deployments, "scale")}, nil},
		"a subresource": {aRule("*", "", "v1", "pods/status"), []Target{sub(pods, "status")},
			[]Target{pods, sub(pods, "log"), sub(nodes, "status")}},
		"all of a resource": {aRule("*", "", "v1", "pods/*"), []Target{pods, sub(pods, "status"), sub(pods, "exec")},
			[]Target{nodes}},
		"one of any": {aRule("*", "*", "*", "*/scale"), []Target{sub(deployments, "scale"), sub(pods, "scale")},
			[]Target{deployments, sub(deployments, "status")}},
		"nested subresource": {aRule("*", "", "v1", "nodes/proxy/x"), []Target{sub(nodes, "proxy/x")},
			[]Target{sub(nodes, "proxy"), nodes}},
		"nothing": {admissionregistrationv1.RuleWithOperations{}, nil, []Target{pods}},
		"several": {admissionregistrationv1.RuleWithOperations{Operations: operations{"CREATE", "DELETE"},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{"apps", ""}, APIVersions: []string{"v1"},
				Resources: []string{"pods", "pods/status", "deployments"}}},
			[]Target{pods, with(pods, remove), sub(pods, "status"), deployments}, []Target{with(pods, update), nodes}},
		"scope: any": {scoped("*"), []Target{pods, nodes, aNamespace}, nil},
		"scope: namespaced": {scoped(admissionregistrationv1.NamespacedScope), []Target{pods, sub(pods, "status")},
			[]Target{nodes, aNamespace, sub(aNamespace, "status")}},
		"scope: cluster": {scoped(admissionregistrationv1.ClusterScope),
			[]Target{nodes, aNamespace, sub(aNamespace, "finalize")}, []Target{pods}},
		"scope: unknown": {scoped("Galaxy"), nil, []Target{pods, nodes}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range test.yes {
				if !ruleMatches(&test.rule, request) {
					t.Errorf("should match %+v", request)
				}
			}
			for _, request := range test.no {
				if ruleMatches(&test.rule, request) {
					t.Errorf("should not match %+v", request)
				}
			}
		})
	}
}

func scoped(scope admissionregistrationv1.ScopeType) admissionregistrationv1.RuleWithOperations {
	rule := aRule("*", "", "v1", "*/*")
	rule.Scope = &scope
	return rule
}

// ExplainRules names what the rules lack, the nearest thing first.
func TestExplainRules(t *testing.T) {
	pods := Target{Operation: create, Resource: gvr("", "v1", "pods"), Namespaced: true}
	updated, resized, deployment, old := pods, pods, pods, pods
	updated.Operation, resized.Subresource, old.Resource.Version = update, "resize", "v2"
	deployment.Resource = gvr("apps", "v1", "deployments")
	rule := aRule("CREATE", "", "v1", "pods")
	for _, test := range []struct {
		rule admissionregistrationv1.RuleWithOperations
		t    Target
		want Mismatch
	}{
		{rule, pods, Matches},
		{rule, updated, "its rules have CREATE of pods, and not UPDATE"},
		{rule, resized, "its rules are for pods, and not for pods/resize"},
		{rule, old, "its rules are for version v1 of pods, and not for v2"},
		{scoped(admissionregistrationv1.ClusterScope), pods, "the scope of its rules is Cluster, which leaves out pods"},
		{rule, deployment, "its rules are for CREATE of pods, and not for CREATE of deployments of apps"},
		{aRule("*", "apps", "v1", "pods"), pods, "its rules are for any operation of pods of apps, and not for CREATE of pods"},
	} {
		rules := []admissionregistrationv1.RuleWithOperations{test.rule}
		if got := ExplainRules(rules, test.t); got != test.want {
			t.Errorf("%v, %v: %q, want %q", test.rule, test.t, got, test.want)
		}
	}
	if got := ExplainRules(nil, pods); got != "it has no rules" {
		t.Error(got)
	}
}
