// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	upstream "k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader"

	"gatehouse.dev/internal/matching/manifest"
)

const (
	aRule       = `{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}`
	constraints = `matchConstraints: {resourceRules: [` + aRule + `]}`
	validations = `validations: [{expression: "true"}]`
	mutations   = `reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, ` +
		`jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/a'}]"}}]`
	actions = `validationActions: [Deny]`
	toP     = `policyName: p.static.k8s.io`
)

// policyManifest is an object in YAML.
func policyManifest(kind, name string, spec ...string) string {
	return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\nspec: {%s}\n",
		kind, name, strings.Join(spec, ", "))
}

// Policies and bindings in files are defaulted and validated by code of ours. Here it is held
// against upstream's: they load the same, and refuse the same with the same words.
func TestPolicyManifestsAreUpstreams(t *testing.T) {
	validating := func(spec ...string) string {
		return policyManifest("ValidatingAdmissionPolicy", "p.static.k8s.io", spec...)
	}
	binding := func(spec ...string) string {
		return policyManifest("ValidatingAdmissionPolicyBinding", "b.static.k8s.io", spec...)
	}
	mutating := func(spec ...string) string {
		return policyManifest("MutatingAdmissionPolicy", "p.static.k8s.io", spec...)
	}
	mutatingBinding := func(spec ...string) string {
		return policyManifest("MutatingAdmissionPolicyBinding", "b.static.k8s.io", spec...)
	}
	ofRules := func(rules string) string { return "matchConstraints: {resourceRules: [" + rules + "]}" }
	mutation := func(m string) string { return "reinvocationPolicy: IfNeeded, mutations: [" + m + "]" }
	good := validating(constraints, validations)
	goodMutating := mutating(constraints, mutations)
	many := strings.Repeat(`{key: a, valueExpression: "''"},`, 21)

	for name, documents := range map[string][]string{
		"nothing":            nil,
		"a policy":           {good},
		"… with its binding": {good, binding(toP, actions)},
		"a list": {`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyList, ` +
			`items: [{metadata: {name: ` +
			`p.static.k8s.io}, spec: {` + constraints + `, ` + validations + `}}]}`},
		"a List": {`{apiVersion: v1, kind: List, items: [{apiVersion: admissionregistration.k8s.io/v1, kind: ` +
			`ValidatingAdmissionPolicy, metadata: {name: p.static.k8s.io}, spec: {` + constraints + `, ` +
			`` + validations + `}}]}`},
		"defaults": {validating(`matchConstraints: {resourceRules: [` + aRule + `], excludeResourceRules: ` +
			`[` + aRule + `]}, ` +
			validations), binding(toP, actions, `matchResources: {resourceRules: [`+aRule+`]}`)},
		"everything": {validating(constraints, `failurePolicy: Ignore`,
			`matchConditions: [{name: a, expression: "true"}]`,
			`variables: [{name: a, expression: "1"}, {name: b, expression: "variables.a + 1"}]`,
			`validations: [{expression: "variables.b == 2", message: m, messageExpression: "'a'", reason: `+
				`Forbidden}]`,
			`auditAnnotations: [{key: a, valueExpression: "null"}]`)},
		"a name":          {policyManifest("ValidatingAdmissionPolicy", "p", constraints, validations)},
		"no name":         {policyManifest("ValidatingAdmissionPolicy", `""`, constraints, validations)},
		"twice":           {good, good},
		"an empty policy": {validating()},
		"no constraints":  {validating(validations)},
		"no rules":        {validating(ofRules(""), validations)},
		"no validations":  {validating(constraints)},
		"failurePolicy":   {validating(constraints, validations, "failurePolicy: Maybe")},
		"paramKind":       {validating(constraints, validations, "paramKind: {apiVersion: v1, kind: ConfigMap}")},
		"matchPolicy": {validating("matchConstraints: {matchPolicy: X, resourceRules: ["+aRule+"]}",
			validations)},
		"namespaceSelector": {validating(
			"matchConstraints: {namespaceSelector: {matchLabels: {a: b c}}, resourceRules: ["+aRule+"]}", validations)},
		"objectSelector": {validating("matchConstraints: {objectSelector: {matchExpressions: "+
			"[{key: a, operator: X}]}, resourceRules: ["+aRule+"]}", validations)},
		"resource names": {validating(ofRules(strings.Replace(aRule, "{", "{resourceNames: [a/b, c, c], ", 1)),
			validations)},
		"operations": {validating(ofRules(strings.Replace(aRule, "[CREATE]", "[CREATE, READ, '*']", 1)),
			validations)},
		"no operations": {validating(ofRules(strings.Replace(aRule, "[CREATE]", "[]", 1)), validations)},
		"resources":     {validating(ofRules(strings.Replace(aRule, "[pods]", "['*', pods]", 1)), validations)},
		"excluded rule": {validating(
			"matchConstraints: {resourceRules: ["+aRule+"], excludeResourceRules: [{}]}", validations)},
		"scope": {validating(ofRules(strings.Replace(aRule, "{", "{scope: Some, ", 1)), validations)},
		"condition": {validating(constraints, validations,
			`matchConditions: [{name: a, expression: "1"}, {name: a b, expression: ""}, {name: a, `+
				`expression: "true"}]`)},
		"condition's name": {validating(constraints, validations, `matchConditions: [{expression: "object.a"}]`)},
		"condition, params": {validating(constraints, validations,
			`matchConditions: [{name: a, expression: "params.a"}]`)},
		"variable names": {validating(constraints, validations,
			`variables: [{name: a-b, expression: "1"}, {name: "", expression: "1"}, {name: for, expression: "1"}]`)},
		"no expression": {validating(constraints, validations, `variables: [{name: a, expression: " "}]`)},
		"a variable":    {validating(constraints, validations, `variables: [{name: a, expression: "1 + 'a'"}]`)},
		"a later variable": {validating(constraints, validations,
			`variables: [{name: a, expression: "variables.b"}, {name: b, expression: "1"}]`)},
		"an unknown variable": {validating(constraints, `variables: [{name: a, expression: "1"}]`,
			`validations: [{expression: "variables.b == 1"}]`)},
		"no variables":          {validating(constraints, `validations: [{expression: "variables.b == 1"}]`)},
		"a validation's type":   {validating(constraints, `validations: [{expression: "'a'"}]`)},
		"a validation's params": {validating(constraints, `validations: [{expression: "params.a == 1"}]`)},
		"an empty validation":   {validating(constraints, `validations: [{expression: ""}]`)},
		"message":               {validating(constraints, `validations: [{expression: "true", message: " "}]`)},
		"a message of lines": {validating(constraints,
			`validations: [{expression: "true", message: "a\nb"}]`)},
		"messageExpression": {validating(constraints,
			`validations: [{expression: "true", messageExpression: " "}]`)},
		"messageExpression's type": {validating(constraints,
			`validations: [{expression: "true", messageExpression: "1"}]`)},
		"messageExpression, rights": {validating(constraints,
			`validations: [{expression: "true", messageExpression: `+
				`"string(authorizer.path('/').check('get').allowed())"}]`)},
		"reason": {validating(constraints,
			`validations: [{expression: "true", reason: Because}]`)},
		"annotations": {validating(constraints,
			`auditAnnotations: [{key: "", valueExpression: ""}, {key: a b, valueExpression: "1"}]`)},
		"an annotation twice": {validating(constraints,
			`auditAnnotations: [{key: a, valueExpression: "'a'"}, {key: a, valueExpression: "'b'"}]`)},
		"a long annotation": {validating(constraints,
			`auditAnnotations: [{key: a, valueExpression: "'`+strings.Repeat("a", 6000)+`'"}]`)},
		"many annotations": {validating(constraints, `auditAnnotations: [`+many+`]`)},
		"an unknown field": {validating(constraints, validations, "x: 1")},

		"a binding alone":         {binding(toP, actions)},
		"a binding of the API's":  {good, binding("policyName: p", actions)},
		"a binding of nothing":    {good, binding(actions)},
		"a binding of a bad name": {good, binding("policyName: P_", actions)},
		"a binding with params": {good, binding(toP, actions,
			"paramRef: {name: a, parameterNotFoundAction: Deny}")},
		"no actions": {good, binding(toP)},
		"actions":    {good, binding(toP, "validationActions: [Deny, Warn, Warn, Tell]")},
		"a binding's resources": {good, binding(toP, actions,
			"matchResources: {matchPolicy: X, resourceRules: [{}]}")},
		"a binding's name": {good, policyManifest("ValidatingAdmissionPolicyBinding", "b", toP, actions)},
		"a binding twice":  {good, binding(toP, actions), binding(toP, actions)},
		"a binding named as policy": {good, policyManifest("ValidatingAdmissionPolicyBinding", "p.static.k8s.io",
			toP, actions)},

		"mutating": {goodMutating, mutatingBinding(toP)},
		"… everything": {mutating(constraints, "failurePolicy: Ignore",
			`variables: [{name: a, expression: "'x'"}]`,
			mutation(`{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: `+
				`Object.metadata{labels: {'a': variables.a}}}"}}`))},
		"… alone": {mutatingBinding(toP)},
		"… empty": {mutating()},
		"… paramKind": {mutating(constraints, mutations,
			"paramKind: {apiVersion: v1, kind: ConfigMap}")},
		"… paramRef": {goodMutating, mutatingBinding(toP,
			"paramRef: {name: a, parameterNotFoundAction: Deny}")},
		"… no mutations": {mutating(constraints, "reinvocationPolicy: Never")},
		"… reinvocation": {mutating(constraints,
			`reinvocationPolicy: Often, mutations: [{patchType: JSONPatch, jsonPatch: {expression: `+
				`"[JSONPatch{op: 'remove', path: '/a'}]"}}]`)},
		"… no reinvocation": {mutating(constraints,
			`mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/a'}]"}}]`)},
		"… deletions": {mutating(ofRules(strings.Replace(aRule, "CREATE", "DELETE", 1)), mutations)},
		"… a binding of deletions": {goodMutating, mutatingBinding(toP,
			`matchResources: {resourceRules: [`+strings.Replace(aRule, "CREATE", "DELETE", 1)+`]}`)},
		"… no patch type": {mutating(constraints,
			mutation(`{jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/a'}]"}}`))},
		"… patch type": {mutating(constraints,
			mutation(`{patchType: X, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/a'}]"}}`))},
		"… no patch":         {mutating(constraints, mutation(`{patchType: JSONPatch}`))},
		"… no configuration": {mutating(constraints, mutation(`{patchType: ApplyConfiguration}`))},
		"… the other": {mutating(constraints,
			mutation(`{patchType: ApplyConfiguration, jsonPatch: {expression: "[JSONPatch{op: 'remove', `+
				`path: '/a'}]"}}, {patchType: JSONPatch, applyConfiguration: {expression: "Object{}"}}`))},
		"… empty patches": {mutating(constraints,
			mutation(`{patchType: JSONPatch, jsonPatch: {expression: " "}}, {patchType: ApplyConfiguration, `+
				`applyConfiguration: {expression: ""}}`))},
		"… types": {mutating(constraints,
			mutation(`{patchType: JSONPatch, jsonPatch: {expression: "true"}}, {patchType: `+
				`ApplyConfiguration, applyConfiguration: {expression: " 1"}}`))},
		"… condition": {mutating(constraints, mutations,
			`matchConditions: [{name: a, expression: "params.x"}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.Join(documents, "---\n")
			if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var got, want []any
			var gotErr, wantErr error
			if strings.Contains(name, "…") && strings.Contains(text, "kind: Mutating") || name == "mutating" {
				got, gotErr = both[*admissionregistrationv1.MutatingAdmissionPolicy,
					*admissionregistrationv1.MutatingAdmissionPolicyBinding](manifest.MutatingPolicies, dir)
				loaded, err := upstream.LoadMutatingManifestsFromDirectory(dir)
				if wantErr = err; err == nil {
					want = []any{loaded.Policies, loaded.Bindings}
				}
			} else {
				got, gotErr = both[*admissionregistrationv1.ValidatingAdmissionPolicy,
					*admissionregistrationv1.ValidatingAdmissionPolicyBinding](manifest.ValidatingPolicies, dir)
				loaded, err := upstream.LoadValidatingManifestsFromDirectory(dir)
				if wantErr = err; err == nil {
					want = []any{loaded.Policies, loaded.Bindings}
				}
			}
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Errorf("%s\nis refused with\n  %v\nby upstream with\n  %v", text, gotErr, wantErr)
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s\n-upstream's +loaded:\n%s", text, cmp.Diff(want, got))
			}
		})
	}
}

// both are the policies and the bindings that our plugin's manifests hold.
func both[P, B manifest.Object](plugin *manifest.Plugin, dir string) ([]any, error) {
	policies, err := ours[P](plugin, dir)
	if err != nil {
		return nil, err
	}
	bindings, err := ours[B](plugin, dir)
	return []any{policies, bindings}, err
}
