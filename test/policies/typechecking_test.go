// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// The status of a policy says which expressions don't fit the kinds that they are for, built-in and
// custom ones, and for which generation that holds.
//
// Source: k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus.
func TestTypeChecking(t *testing.T) {
	ns := namespace(t)
	define(t, "typedthings", "TypedThing", "Namespaced", "{type: object, properties: {size: {type: integer}}}")
	onDeployments := rule("apps", "v1", "deployments", "[CREATE]")
	onThings := rule("policies.example.com", "v1", "typedthings", "[CREATE]")
	for name, test := range map[string]struct {
		rules, spec string
		// want is part of each warning, as field: text.
		want []string
	}{
		"nothing wrong": {onDeployments, `validations: [{expression: "object.spec.replicas < 5"}]`, nil},
		"a built-in kind": {onDeployments, `validations: [{expression: "true"}, {expression: "object.spec.nope < 5"}]`,
			[]string{"spec.validations[1].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined " +
				"field 'nope'"}},
		"a custom kind": {onThings, `validations: [{expression: "object.spec.size < 'a'"}]`,
			[]string{"spec.validations[0].expression: policies.example.com/v1, Kind=TypedThing: ERROR: " +
				"<input>:1:18: found no matching " +
				"overload for '_<_' applied to '(int, string)'"}},
		"several kinds": {onDeployments + ", " + onConfigMaps, `validations: [{expression: "object.data.a == 'b'"}]`,
			[]string{"spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field " +
				"'data'"}},
		"params": {onConfigMaps, `paramKind: {apiVersion: policies.example.com/v1, kind: TypedThing}, ` +
			`validations: [{expression: "params.spec.nope == 1"}]`,
			[]string{"spec.validations[0].expression: /v1, Kind=ConfigMap: ERROR: <input>:1:12: undefined field " +
				"'nope'"}},
		"no schema": {rule("nobody.example.com", "v1", "things", "[CREATE]"),
			`validations: [{expression: "object.spec.nope == 1"}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			// What a new kind looks like is known a little after the kind is.
			becomes(t, "", func() error { return typesOf(t, validate(t, ns, test.rules, test.spec, ""), test.want) })
		})
	}

	policy := validate(t, ns, onDeployments, `validations: [{expression: "object.nope == 1"}]`, "")
	must(t, typesOf(t, policy, []string{"spec.validations[0].expression: "}))
	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	p, err := policies.Get(t.Context(), policy, metav1.GetOptions{})
	must(t, err)
	p.Spec.Validations[0].Expression = "object.spec.paused == true"
	_, err = policies.Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	must(t, typesOf(t, policy, nil))
}

// typesOf says what the policy's status, once it is checked, has other warnings than.
func typesOf(t *testing.T, policy string, want []string) error {
	t.Helper()
	var checked admissionregistrationv1.TypeChecking
	servertest.Retry(t, "the types to be checked", func() error {
		p, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), policy,
			metav1.GetOptions{})
		if err == nil && p.Status.ObservedGeneration != p.Generation {
			err = fmt.Errorf("the status is %v", p.Status)
		}
		// An apply that takes the last warning back leaves nothing, here as in Kubernetes.
		if err == nil && p.Status.TypeChecking != nil {
			checked = *p.Status.TypeChecking
		}
		return err
	})
	if len(checked.ExpressionWarnings) != len(want) {
		return fmt.Errorf("the warnings are %v, want %q", checked.ExpressionWarnings, want)
	}
	for i, w := range checked.ExpressionWarnings {
		if text := w.FieldRef + ": " + w.Warning; !strings.Contains(text, want[i]) {
			return fmt.Errorf("the warning is %q, want %q", text, want[i])
		}
	}
	return nil
}
