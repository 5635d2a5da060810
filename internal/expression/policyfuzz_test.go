// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"testing"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Whatever a policy's variables, expressions and params say, a run ends: it panics nowhere, comes
// to what its kind promises, and costs no more than its budget, remembered or not.
func FuzzPolicy(f *testing.F) {
	for _, seed := range [][3]string{
		{"object.metadata.name", "variables.a + '!'", "variables.b == params.metadata.name"},
		{"variables", "variables.a", "variables.b == variables"},
		{"dyn(variables).b", "dyn(variables)['a']", "variables.b == 1"},
		{"params", "variables.a.data", "has(variables.b.max) && int(variables.b.max) > 2"},
		{costly(5), "variables.a || " + costly(5), "[1, 2, 3].all(x, variables.b)"},
		{"[1].map(params, params)", "namespaceObject.metadata.labels", "variables.a == [1] && 'team' in variables.b"},
		{"authorizer.path('/x')", "variables.a.check('get')", "variables.b.allowed()"}, {"", "(", "variables.a.b.c"},
		{"Object{}", "JSONPatch{}", "Object{spec: variables.a}"},
		{"'a'.matches(object.metadata.name)", "1 / 0", "variables.b > 0"},
	} {
		f.Add(seed[0], seed[1], seed[2], "web")
	}
	f.Fuzz(func(t *testing.T, a, b, text, name string) {
		object := pod()
		object.Name = name
		compiler := NewCompiler()
		composition := compiler.Compose(policyVariables("a", a, "b", b), true)
		v := NewVariables(contentOf(object), nil, request, alice, allowing)
		for _, kind := range []*Kind{Condition, Message, AuditAnnotation, ApplyConfiguration, JSONPatch} {
			e := composition.Expression(text, kind)
			var spent []uint64
			for range 2 {
				run := v.run(Inputs{Params: configMap("one"), Namespace: shop, Authorizer: true},
					celconfig.RuntimeCELCostBudget)
				result, err := run.Evaluate(t.Context(), e)
				switch {
				case err != nil && !errors.Is(err, apiservercel.ErrOutOfBudget):
					t.Errorf("%q: %v", text, err)
				case err == nil && (result.Err == nil) == (result.Value == nil):
					t.Errorf("%q: %+v", text, result)
				case run.budget > celconfig.RuntimeCELCostBudget:
					t.Errorf("%q: %d are left", text, run.budget)
				}
				spent = append(spent, run.budget)
			}
			if spent[0] != spent[1] {
				t.Errorf("%q costs %d and then %d", text, spent[0], spent[1])
			}
		}
	})
}
