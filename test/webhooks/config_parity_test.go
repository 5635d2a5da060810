// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	policies "k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader"
	webhooks "k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader"

	"gatehouse.dev/apiserver/manifests"
	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/plugin"
)

// inManifest returns an object in YAML.
func inManifest(kind, name string, fields ...string) string {
	return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\n%s\n",
		kind, name, strings.Join(fields, "\n"))
}

// Configurations, policies and bindings in files load as upstream's, and are refused with the same words. Left out are
// intended differences: service references, certificates, and more than one wrong document.
func TestManifestsAreUpstreams(t *testing.T) {
	const (
		rule        = `{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}`
		constraints = `matchConstraints: {resourceRules: [` + rule + `]}`
		validations = `validations: [{expression: "true"}]`
		mutations   = `reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, ` +
			`jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/a'}]"}}]`
		actions   = `validationActions: [Deny]`
		toP       = `policyName: p.static.k8s.io`
		webhook   = `name: a.example.com, clientConfig: {url: "https://example.com/a"}, admissionReviewVersions: [v1]`
		good      = webhook + `, sideEffects: None, rules: [` + rule + `]`
		noAddress = `sideEffects: None, admissionReviewVersions: [v1]`
		rest      = noAddress + `, clientConfig: {url: "https://example.com/b"}, timeoutSeconds: 3, matchPolicy: Exact`
		paramRef  = "paramRef: {name: a, parameterNotFoundAction: Deny}"
	)
	spec := func(fields []string) string { return "spec: {" + strings.Join(fields, ", ") + "}" }
	kinds := map[string]struct {
		plugin *manifest.Plugin
		ours   func(*manifest.Set) any
		theirs func(dir string) (any, error)
	}{
		"MutatingWebhookConfiguration": {manifest.MutatingWebhooks,
			func(s *manifest.Set) any {
				return manifest.CurrentObjects[*admissionregistrationv1.MutatingWebhookConfiguration](s)
			},
			func(dir string) (any, error) {
				loaded, err := webhooks.LoadMutatingManifests(dir)
				if err != nil {
					return nil, err
				}
				return loaded.Configurations, nil
			}},
		"ValidatingWebhookConfiguration": {manifest.ValidatingWebhooks,
			func(s *manifest.Set) any {
				return manifest.CurrentObjects[*admissionregistrationv1.ValidatingWebhookConfiguration](s)
			},
			func(dir string) (any, error) {
				loaded, err := webhooks.LoadValidatingManifests(dir)
				if err != nil {
					return nil, err
				}
				return loaded.Configurations, nil
			}},
		"MutatingAdmissionPolicy": {manifest.MutatingPolicies,
			func(s *manifest.Set) any {
				return []any{manifest.CurrentObjects[*admissionregistrationv1.MutatingAdmissionPolicy](s),
					manifest.CurrentObjects[*admissionregistrationv1.MutatingAdmissionPolicyBinding](s)}
			},
			func(dir string) (any, error) {
				loaded, err := policies.LoadMutatingManifestsFromDirectory(dir)
				if err != nil {
					return nil, err
				}
				return []any{loaded.Policies, loaded.Bindings}, nil
			}},
		"ValidatingAdmissionPolicy": {manifest.ValidatingPolicies,
			func(s *manifest.Set) any {
				return []any{manifest.CurrentObjects[*admissionregistrationv1.ValidatingAdmissionPolicy](s),
					manifest.CurrentObjects[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](s)}
			},
			func(dir string) (any, error) {
				loaded, err := policies.LoadValidatingManifestsFromDirectory(dir)
				if err != nil {
					return nil, err
				}
				return []any{loaded.Policies, loaded.Bindings}, nil
			}},
	}
	for kind, k := range kinds {
		policy := func(fields ...string) string { return inManifest(kind, "p.static.k8s.io", spec(fields)) }
		binding := func(fields ...string) string { return inManifest(kind+"Binding", "b.static.k8s.io", spec(fields)) }
		cases := map[string][]string{"nothing": nil}
		switch {
		case strings.HasSuffix(kind, "WebhookConfiguration"):
			named := func(name string, fields ...string) string {
				return inManifest(kind, name, "webhooks: [{"+strings.Join(fields, "}, {")+"}]")
			}
			for name, documents := range map[string][]string{
				"one":             {named("a.static.k8s.io", good)},
				"without":         {inManifest(kind, "a.static.k8s.io")},
				"two":             {named("b.static.k8s.io", good), named("a.static.k8s.io", good)},
				"all fields":      {named("a.static.k8s.io", good, `name: b.example.com, `+rest+`, failurePolicy: Ignore`)},
				"twice":           {named("a.static.k8s.io", good), named("a.static.k8s.io", good)},
				"a webhook twice": {named("a.static.k8s.io", good, good)},
				"a name":          {named("a", good)},
				"a bad name":      {named("A.static.k8s.io", good)},
				"no name":         {named(`""`, good)},
				"no side effects": {named("a.static.k8s.io", webhook)},
				"no address":      {named("a.static.k8s.io", `name: a.example.com, `+noAddress)},
				"many errors": {named("a.static.k8s.io",
					webhook+`, timeoutSeconds: 60, matchConditions: [{name: a, expression: "1"}]`,
					`name: b`)},
				"an unknown field": {named("a.static.k8s.io", good+", x: 1")},
			} {
				cases[name] = documents
			}
		case strings.HasPrefix(kind, "Validating"):
			for name, documents := range map[string][]string{
				"everything": {policy(constraints, `failurePolicy: Ignore`, `matchConditions: [{name: a, expression: "true"}]`,
					`variables: [{name: a, expression: "1"}, {name: b, expression: "variables.a + 1"}]`,
					`validations: [{expression: "variables.b == 2", message: m, messageExpression: "'a'", reason: Forbidden}]`,
					`auditAnnotations: [{key: a, valueExpression: "null"}]`)},
				"a long annotation": {policy(constraints,
					`auditAnnotations: [{key: a, valueExpression: "'`+strings.Repeat("a", 6000)+`'"}]`)},
				"no actions": {policy(constraints, validations), binding(toP)},
			} {
				cases[name] = documents
			}
		}
		if strings.HasSuffix(kind, "Policy") {
			does, acts := validations, actions
			if kind == "MutatingAdmissionPolicy" {
				does, acts = mutations, `matchResources: {}`
			}
			for name, documents := range map[string][]string{
				"a policy":           {policy(constraints, does)},
				"… with its binding": {policy(constraints, does), binding(toP, acts)},
				"a list": {fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %sList, items: [{metadata: {name: `+
					`p.static.k8s.io}, spec: {%s, %s}}]}`, kind, constraints, does)},
				"a List": {fmt.Sprintf(`{apiVersion: v1, kind: List, items: [{apiVersion: admissionregistration.k8s.io/v1, `+
					`kind: %s, metadata: {name: p.static.k8s.io}, spec: {%s, %s}}]}`, kind, constraints, does)},
				"excluded rules": {policy(`matchConstraints: {resourceRules: [`+rule+`], excludeResourceRules: [`+rule+`]}`,
					does)},
				"a name":           {inManifest(kind, "p", spec([]string{constraints, does}))},
				"no name":          {inManifest(kind, `""`, spec([]string{constraints, does}))},
				"twice":            {policy(constraints, does), policy(constraints, does)},
				"an empty policy":  {policy()},
				"an expression":    {policy(constraints, does, `matchConditions: [{name: a, expression: "params.a"}]`)},
				"paramKind":        {policy(constraints, does, "paramKind: {apiVersion: v1, kind: ConfigMap}")},
				"an unknown field": {policy(constraints, does, "x: 1")},

				"a binding alone":         {binding(toP, acts)},
				"a binding of the API's":  {policy(constraints, does), binding("policyName: p", acts)},
				"a binding of nothing":    {policy(constraints, does), binding(acts)},
				"a binding of a bad name": {policy(constraints, does), binding("policyName: P_", acts)},
				"a binding with params":   {policy(constraints, does), binding(toP, acts, paramRef)},
				"a binding's name":        {policy(constraints, does), inManifest(kind+"Binding", "b", spec([]string{toP, acts}))},
				"a binding twice":         {policy(constraints, does), binding(toP, acts), binding(toP, acts)},
				"a binding named as policy": {policy(constraints, does),
					inManifest(kind+"Binding", "p.static.k8s.io", spec([]string{toP, acts}))},
			} {
				cases[name] = documents
			}
		}
		for name, documents := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				dir := t.TempDir()
				text := strings.Join(documents, "---\n")
				if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				want, wantErr := k.theirs(dir)
				set, gotErr := k.plugin.Load(dir, &plugin.Env{ValidateManifest: manifests.Validate})
				if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
					t.Errorf("%s\nis refused with\n  %v\nby upstream with\n  %v", text, gotErr, wantErr)
				}
				if gotErr != nil || wantErr != nil {
					return
				}
				if got := k.ours(set); !equality.Semantic.DeepEqual(got, want) {
					t.Errorf("%s\n-upstream's +loaded:\n%s", text, cmp.Diff(want, got))
				}
			})
		}
	}
}
