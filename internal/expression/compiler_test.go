// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Source of the messages: CompileCELExpression in
// k8s.io/apiserver/pkg/admission/plugin/cel/compile.go.
func TestCheck(t *testing.T) {
	compiler := NewCompiler()
	for expression, want := range map[string]string{
		"true": "",
		"object.metadata.namespace.matches('^kube-')":              "",
		"!(request.resource.group == 'coordination.k8s.io')":       "",
		"object.spec.containers.all(i, c, c.name != '')":           "",
		"sets.contains(['a', 'b'], ['a']) && isSemver('1.0.0')":    "",
		"!format.dns1123Label().validate('x').hasValue()":          "",
		"authorizer.requestResource.check('breakglass').allowed()": "",
		"": "compilation failed: ERROR: <input>:1:0: Syntax error",
		"nope": "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in " +
			"container '')",
		"object.x":            "must evaluate to bool but got dyn",
		"object.name.size()":  "must evaluate to bool but got int",
		"'a'.matches('[')":    "compilation failed: ERROR: <input>:1:13: invalid matches argument",
		"'a'.find('[') == ''": "program instantiation failed: error parsing regexp: missing closing ]",
		strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300): "compilation failed: ERROR: <input>",
	} {
		err := compiler.Check(expression)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.50s: %v", expression, err)
		}
	}
}

// Expressions that read alike are compiled once, and forgotten with the last conditions that hold
// them.
func TestCache(t *testing.T) {
	compiler := NewCompiler()
	one := compiler.Compile([]admissionregistrationv1.MatchCondition{{Name: "x", Expression: "1 == 1"},
		{Name: "y", Expression: "2 == 2"}})
	two := compiler.Compile([]admissionregistrationv1.MatchCondition{{Name: "z", Expression: "2 == 2"}})
	if one.conditions[1].program != two.conditions[0].program {
		t.Error("an expression was compiled twice")
	}
	if one.conditions[0].program == one.conditions[1].program {
		t.Error("two expressions are one")
	}
	if one.Match(t.Context(), create(nil)); one.conditions[0].program.cel == nil {
		t.Error("a program is not kept")
	}
	runtime.KeepAlive(one)
	collectUntil := func(left int) {
		remembered := -1
		for range 1000 {
			compiler.mu.Lock()
			remembered = len(compiler.programs)
			compiler.mu.Unlock()
			if remembered == left {
				return
			}
			runtime.GC()
		}
		t.Fatalf("%d expressions are remembered, want %d", remembered, left)
	}
	collectUntil(1)
	runtime.KeepAlive(two)
	collectUntil(0)
	if verdict := compiler.Compile([]admissionregistrationv1.MatchCondition{{Name: "x",
		Expression: "1 == 1"}}).Match(t.Context(), create(nil)); !verdict.Matches {
		t.Errorf("%+v", verdict)
	}
}

// Whatever an expression and an object say, an evaluation ends with a verdict: it panics nowhere,
// and what it may cost is bounded.
func FuzzMatch(f *testing.F) {
	for _, expression := range []string{
		"true", "", "object", "object.metadata.labels[request.name] == 'x'",
		"oldObject == null || has(oldObject.metadata)",
		"object.metadata.labels.exists(k, k.matches('^[a-z]+$') && object.metadata.labels[k].size() > 3)",
		"authorizer.serviceAccount(request.namespace, request.name).path('/' + request.name).check('get').allowed()",
		"authorizer.requestResource.labelSelector(object.metadata.name).check('get').errored()",
		"object.metadata.?labels['a'].optMap(v, v + v).orValue('') in ['x']",
		"[1, 2, 3].map(a, [a, a].map(b, a * b)).all(l, l.size() == 2)", costly(2), costly(5),
		"quantity(object.metadata.name).isGreaterThan(quantity('1k'))",
		"url(object.metadata.name).getHost() == ip('1.1.1.1').string()",
		"'a'.matches(object.metadata.name)", "timestamp(object.metadata.name) > duration('1h')",
		"1 / size(object.metadata.name) > 0 ? true : dyn(1)",
		"dyn(request).options.x[0].y", "type(object) == map && string(object.metadata.name).format([1]) == '%s'",
		"((((((((((1))))))))))",
	} {
		f.Add(expression, "web", "value")
	}
	f.Fuzz(func(t *testing.T, expression, name, value string) {
		object := pod()
		object.Name, object.Labels["a"] = name, value
		compiled := conditions(expression, "object.metadata.name == '"+name+"'")
		v := NewVariables(contentOf(object), nil, request, alice, allowing)
		verdict := compiled.Match(t.Context(), v)
		if outcomes := []bool{verdict.Matches, verdict.Failed != "", verdict.Err != nil}; count(outcomes) != 1 {
			t.Errorf("%q: %+v", expression, verdict)
		}
		o := v.run(Inputs{Authorizer: true}, 0).outcome(t.Context(), compiled.conditions[0].program)
		if o.err == nil && (o.cost > celconfig.PerCallLimit || o.value != types.True && o.value != types.False) {
			t.Errorf("%q: %+v", expression, o)
		}
	})
}

func count(of []bool) (n int) {
	for _, is := range of {
		if is {
			n++
		}
	}
	return n
}
