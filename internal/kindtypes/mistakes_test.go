// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// A policy for several kinds may look at what only some of them have.
func TestUnknownFields(t *testing.T) {
	mapper := staticMapper{meta.NewDefaultRESTMapper(nil)}
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "DaemonSet"},
		{Group: "stable.example.com", Version: "v1", Kind: "Unknown"},
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	types := New(crontabs{}, mapper)
	rule := func(groups, versions, resources string) string {
		return `matchConstraints: {resourceRules: [{apiGroups: [` + groups + `], apiVersions: [` + versions +
			`], operations: ["*"], resources: [` + resources + `]}]}, `
	}
	validation := func(expression string) string { return `validations: [{expression: "` + expression + `"}]` }
	both, podsToo := rule("apps", "v1", "deployments, daemonsets"), rule(`apps, ""`, "v1", "deployments, pods")
	const hostNetwork, deployment = "object.spec.template.spec.hostNetwrk", "apps/v1 Deployment"
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"what one has": {both + validation("object.spec.replicas <= 3"), nil},
		"what none has": {both + validation(hostNetwork), []string{
			"spec.validations[0].expression: undefined field 'hostNetwrk' of apps/v1 DaemonSet, " + deployment}},
		"a part of what one has": {podsToo +
			validation("has(object.spec.template) && object.spec.template.spec.hostNetwork"), nil},
		"one that is read twice": {both + validation("object.nope == 1 || object.nope == 2"), []string{
			"spec.validations[0].expression: undefined field 'nope' of apps/v1 DaemonSet, " + deployment}},
		"a part of what none has": {podsToo + validation("true && "+hostNetwork), []string{
			"spec.validations[0].expression: undefined field 'hostNetwrk' of v1 Pod, " + deployment}},
		"each one's own": {podsToo + validation("object.spec.replicas == 1 || object.spec.hostname == 'a'"), nil},
		"on another line": {podsToo + validation(`object.spec.hostname == 'a' ||\n  object.nope == 1`),
			[]string{"spec.validations[0].expression: undefined field 'nope' of v1 Pod, " + deployment}},
		"fields without a type": {rule(`""`, "v1", "pods") +
			validation("object.spec.containers.all(c, has(c.resources.limits) && 'memory' in c.resources.limitz)"), []string{
			"spec.validations[0].expression: undefined field 'limitz' of v1 Pod"}},
		"other types":   {both + validation("object.metadata.name == 1"), nil},
		"a wildcard":    {rule("apps", `"*"`, "deployments") + validation("object.nope == 1"), nil},
		"a subresource": {rule("apps", "v1", "deployments, deployments/scale") + validation("object.nope == 1"), nil},
		"a subresource of the same kind": {rule("apps", "v1", "deployments, deployments/status") +
			validation("object.nope == 1"),
			[]string{"spec.validations[0].expression: undefined field 'nope' of " + deployment}},
		"a kind that isn't known": {rule(`apps, stable.example.com`, "v1", "deployments, unknowns") +
			validation("object.nope == 1"), nil},
		"every expression": {both + `matchConditions: [{name: a, expression: "object.a == 1"}], ` +
			`variables: [{name: b, expression: "object.b"}, {name: c, expression: "variables.b"}], ` +
			`validations: [{expression: "variables.c == 1", messageExpression: "object.d"}], ` +
			`auditAnnotations: [{key: e, valueExpression: "object.e"}]`, []string{
			"spec.matchConditions[0].expression: undefined field 'a' of apps/v1 DaemonSet, " + deployment,
			"spec.variables[0].expression: undefined field 'b' of apps/v1 DaemonSet, " + deployment,
			"spec.validations[0].messageExpression: undefined field 'd' of apps/v1 DaemonSet, " + deployment,
			"spec.auditAnnotations[0].valueExpression: undefined field 'e' of apps/v1 DaemonSet, " + deployment}},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := yaml.UnmarshalStrict([]byte("{"+test.spec+"}"), &policy.Spec); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, unknown := range types.UnknownFields(policy) {
				got = append(got, unknown.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
