// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// variables are those of a policy, given as name, expression, name, expression, ...
func policyVariables(of ...string) (variables []admissionregistrationv1.Variable) {
	for i := 0; i < len(of); i += 2 {
		variables = append(variables, admissionregistrationv1.Variable{Name: of[i], Expression: of[i+1]})
	}
	return variables
}

func configMap(name string) *Params {
	return NewParams(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"max": "3"}},
		schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
}

var shop = &corev1.Namespace{
	ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "red"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
	Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
	Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
}

// Source: TestCondition in k8s.io/apiserver/pkg/admission/plugin/cel/condition_test.go,
// TestCompositedPolicies in composition_test.go, and TestCompileValidatingPolicyExpression in
// compile_test.go there.
func TestPolicyExpressions(t *testing.T) {
	for _, test := range []struct {
		name       string
		variables  []admissionregistrationv1.Variable
		params     bool
		kind       *Kind
		in         Inputs
		expression string
		// want is the value's text, or err the error's.
		want, err string
	}{
		{name: "namespaceObject", in: Inputs{Namespace: shop},
			expression: "namespaceObject.metadata.labels.team == 'red' && namespaceObject.spec.finalizers == " +
				"['kubernetes'] && namespaceObject.status.phase == 'Active'", want: "true"},
		{name: "no more of the namespace than is declared", in: Inputs{Namespace: shop},
			expression: "has(dyn(namespaceObject).metadata.managedFields)", want: "false"},
		{name: "no namespace", expression: "namespaceObject == null", want: "true"},
		{name: "params", params: true, in: Inputs{Params: configMap("a")},
			expression: "params.kind == 'ConfigMap' && params.apiVersion == 'v1' && int(params.data.max) == 3",
			want:       "true"},
		{name: "no params", params: true, expression: "params == null", want: "true"},
		{name: "a field of no params", params: true, expression: "params.data == 1",
			err: "expression 'params.data == 1' resulted in error: no such key: data"},
		{name: "params without a paramKind", expression: "params == null",
			err: "compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'"},
		{name: "an authorizer", in: Inputs{Authorizer: true},
			expression: "authorizer.path('/x').check('get').allowed()", want: "true"},
		{name: "no authorizer in messages", kind: Message, in: Inputs{Authorizer: true},
			expression: "string(authorizer.path('/x').check('get').allowed())",
			err: "compilation error: compilation failed: ERROR: <input>:1:8: undeclared reference to " +
				"'authorizer'"},
		{name: "audit annotations compile with one, and have none", kind: AuditAnnotation,
			expression: "string(authorizer.path('/x').check('get').allowed())",
			err: "expression 'string(authorizer.path('/x').check('get').allowed())' resulted in error: no such " +
				"attribute(s): authorizer"},
		{name: "nor deep inside a variable", kind: Message, expression: "string(variables.deep)",
			variables: policyVariables("deep", strings.Repeat("[1].all(x, ", 40)+"authorizer.path('/x').check('get').allowed()"+
				strings.Repeat(")", 40)), err: "no such attribute(s): authorizer"},
		{name: "a message", kind: Message, expression: "'no ' + object.metadata.name", want: "no web"},
		{name: "a message is a string", kind: Message, expression: "1",
			err: "compilation error: must evaluate to string but got int"},
		{name: "not dyn", kind: Message, expression: "object.metadata.name",
			err: "compilation error: must evaluate to string but got dyn"},
		{name: "an annotation", kind: AuditAnnotation, expression: "'x'", want: "x"},
		{name: "no annotation", kind: AuditAnnotation, expression: "null", want: "null"},
		{name: "an annotation is a string or null", kind: AuditAnnotation, expression: "1",
			err: "compilation error: must evaluate to one of [string null_type] but got int"},
		{name: "one of both isn't", kind: AuditAnnotation, expression: "true ? 'x' : null",
			err: "compilation error: compilation failed: ERROR: <input>:1:6: found no matching overload for '_?_:_'"},

		{name: "a variable", variables: policyVariables("name", "object.metadata.name"),
			expression: "variables.name == 'web'", want: "true"},
		{name: "of another", variables: policyVariables("a", "1", "b", "variables.a + 1", "c", "variables.b + 1"),
			expression: "variables.c == 3 && variables.a == 1", want: "true"},
		{name: "later ones aren't known", variables: policyVariables("a", "variables.b", "b", "1"),
			expression: "variables.a == 1",
			err: "expression 'variables.a == 1' resulted in error: composited variable \"a\" fails to compile: " +
				"compilation failed: ERROR: <input>:1:10: undefined field 'b'"},
		{name: "nor itself", variables: policyVariables("a", "variables.a"), expression: "variables.a == 1",
			err: "fails to compile: compilation failed: ERROR: <input>:1:10: undefined field 'a'"},
		{name: "nor by a way around the types", variables: policyVariables("a", "dyn(variables).a"),
			expression: "variables.a == 1",
			err:        "composited variable \"a\" fails to evaluate: no such key: a"},
		{name: "one that isn't there", variables: policyVariables("a", "1"), expression: "variables.b == 1",
			err: "compilation failed: ERROR: <input>:1:10: undefined field 'b'"},
		{name: "of the wrong type", variables: policyVariables("a", "1"), expression: "variables.a == 'x'",
			err: "compilation failed: ERROR: <input>:1:13: found no matching overload for '_==_'"},
		{name: "types of lists and maps are known", variables: policyVariables("a", "[1]", "b", "{'x': ['y']}"),
			expression: "variables.a[0] == 'x'", err: "found no matching overload for '_==_'"},
		{name: "an error", variables: policyVariables("a", "object.nope"), expression: "variables.a == 1",
			err: "expression 'variables.a == 1' resulted in error: composited variable \"a\" fails to evaluate: " +
				"no such key: nope"},
		{name: "an error that nobody reads", variables: policyVariables("a", "object.nope"),
			expression: "true || variables.a == 1", want: "true"},
		{name: "whether it is there evaluates it", variables: policyVariables("a", "object.nope"),
			expression: "has(variables.a)", err: "composited variable \"a\" fails to evaluate: no such key: nope"},
		{name: "variables that don't compile are an error of who reads them",
			variables: policyVariables("a", "nope(", "b", "2"), expression: "variables.b == 2", want: "true"},
		{name: "all of them", variables: policyVariables("a", "1", "b", "2"),
			expression: "dyn(variables).size() == 2 && variables == variables", err: "no such overload"},
		{name: "by name", variables: policyVariables("a", "1", "b", "2"),
			expression: "dyn(variables)['b'] == 2 && 'a' in dyn(variables)", err: "no such overload"},
		{name: "without variables", expression: "variables.a == 1",
			err: "compilation failed: ERROR: <input>:1:10: undefined field 'a'"},
		{name: "a variable that reads params", params: true, variables: policyVariables("max", "int(params.data.max)"),
			in: Inputs{Params: configMap("a")}, expression: "variables.max == 3", want: "true"},
		{name: "a variable that asks the authorizer, of a message", kind: Message,
			variables:  policyVariables("may", "authorizer.path('/x').check('get').allowed()"),
			expression: "string(variables.may)",
			err:        "composited variable \"may\" fails to evaluate: no such attribute(s): authorizer"},

		{name: "an object", kind: ApplyConfiguration,
			expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}.metadata.labels['a'] == 'b' ? " +
				"Object{} : Object{spec: Object.spec{}}", want: "type"},
		{name: "not an object", kind: ApplyConfiguration, expression: "1",
			err: "compilation error: must evaluate to Object but got int"},
		{name: "a patch", kind: JSONPatch,
			expression: "[JSONPatch{op: 'add', path: '/x/' + jsonpatch.escapeKey('a/b'), value: variables.v}]",
			variables:  policyVariables("v", "1"), want: "type"},
		{name: "objects are for mutations", expression: "Object{} == Object{}",
			err: "undeclared reference to 'Object'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.kind == nil {
				test.kind = Condition
			}
			e := NewCompiler().Compose(test.variables, test.params).Expression(test.expression, test.kind)
			result, err := NewVariables(contentOf(pod()), nil, request, alice,
				allowing).Run(test.in).Evaluate(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case test.err != "":
				if result.Err == nil || !strings.Contains(result.Err.Error(), test.err) {
					t.Errorf("got  %v %v\nwant %s", result.Value, result.Err, test.err)
				}
			case result.Err != nil:
				t.Error(result.Err)
			case test.want != "type":
				if got := asText(result.Value.ConvertToType(types.StringType).Value()); got != test.want &&
					!(test.want == "null" && result.Value == types.NullValue) {
					t.Errorf("got %v, want %s", got, test.want)
				}
			}
		})
	}
}

func asText(v any) string {
	s, _ := v.(string)
	return s
}

// What an expression reads decides how often it is evaluated.
func TestReads(t *testing.T) {
	composition := NewCompiler().Compose(policyVariables(
		"plain", "object.metadata.name", "limit", "params.data.max", "indirect", "variables.limit + 'x'",
		"may", "authorizer.path('/x').check('get').allowed()"), true)
	for expression, want := range map[string]dependencies{
		"true":                        {},
		"object.params == 1":          {object: true},
		"params == null":              {params: true},
		"oldObject == null":           {},
		"'params' == 'x'":             {},
		"variables.plain == 'x'":      {object: true},
		"variables.limit == 'x'":      {params: true},
		"variables.indirect == 'x'":   {params: true},
		"has(variables.limit)":        {params: true},
		"variables.may":               {authorizer: true},
		"dyn(variables) == 1":         {object: true, params: true, authorizer: true},
		"dyn(variables)['plain'] > 1": {object: true, params: true, authorizer: true},
		"namespaceObject == null && authorizer.requestResource.check('x').allowed()": {authorizer: true,
			namespace: true},
		"object.all(v, v == params)": {object: true, params: true},
		"nope(":                      {},
	} {
		if got := composition.Expression(expression, Condition).program.dependencies(); got != want {
			t.Errorf("%s reads %+v, want %+v", expression, got, want)
		}
		if got := composition.Expression(expression, Condition).ReadsParams(); got != want.params {
			t.Errorf("%s reads params: %v", expression, got)
		}
	}
}

// Variables are charged when they are first read in a run, and again in the next, whether they were
// evaluated or remembered: by expressions, by other variables, or for other params.
//
// Source: TestLazyEvaluation... the costs are what GetAndResetCost of
// k8s.io/apiserver/pkg/admission/plugin/cel/composition.go adds to an expression's own.
func TestCharges(t *testing.T) {
	composition := NewCompiler().Compose(policyVariables(
		"dear", costly(3), "dearer", "variables.dear && "+costly(4), "of", "params == null || variables.dear"), true)
	v := NewVariables(contentOf(pod()), nil, request, alice, nil)
	evaluate := func(r *Run, text string) uint64 {
		t.Helper()
		before := r.budget
		result, err := r.Evaluate(t.Context(), composition.Expression(text, Condition))
		if err != nil || result.Err != nil || result.Value != types.True {
			t.Fatalf("%s: %+v, %v", text, result, err)
		}
		return before - r.budget
	}
	thousand, tenThousand := evaluate(v.Run(Inputs{}), costly(3)), evaluate(v.Run(Inputs{}), costly(4))
	if thousand < 3000 || tenThousand < 30000 {
		t.Fatal(thousand, tenThousand)
	}
	one, other := configMap("one"), configMap("other")
	for range 2 { // what is remembered by then is charged, too
		for _, params := range []*Params{nil, one, other} {
			run := v.Run(Inputs{Params: params})
			read := evaluate(run, "variables.dearer")
			for _, step := range []struct {
				expression string
				want       uint64
			}{
				{"variables.dear", read - thousand - tenThousand - 2},
				{"variables.dearer && variables.dear", 4},
				{"variables.of", 0},
				{"variables.of", 2},
			} {
				cost := evaluate(run, step.expression)
				if step.want != 0 && (cost > step.want+2 || cost+2 < step.want) {
					t.Errorf("%s costs %d, want about %d", step.expression, cost, step.want)
				}
			}
			next := run.Continue(Inputs{Params: params})
			if next.budget != run.budget {
				t.Errorf("the next run has %d, want %d", next.budget, run.budget)
			}
			if again := evaluate(next, "variables.dearer"); again != read {
				t.Errorf("read again in the next run it costs %d, not %d", again, read)
			}
		}
	}
	short := v.run(Inputs{}, thousand+tenThousand)
	if _, err := short.Evaluate(t.Context(), composition.Expression("variables.dearer", Condition)); !errors.Is(err,
		apiservercel.ErrOutOfBudget) || err.Error() !=
		"validation failed due to running out of cost budget, no further validation rules will be run" {
		t.Error(err)
	}
	if full := v.Run(Inputs{}).budget; full != celconfig.RuntimeCELCostBudget {
		t.Error(full)
	}
}

// What reads no params is evaluated once for all of them, and for all policies that say the same.
func TestEvaluatedOnce(t *testing.T) {
	compiler := NewCompiler()
	v := NewVariables(contentOf(pod()), nil, request, alice, allowing)
	for range 10 {
		composition := compiler.Compose(policyVariables("name", "object.metadata.name"), true)
		for _, params := range []*Params{configMap("a"), configMap("b")} {
			run := v.Run(Inputs{Params: params, Authorizer: true})
			for _, text := range []string{"variables.name == 'web'", "object.kind == 'Pod'",
				"authorizer.path('/x').check('get').allowed()"} {
				if result, err := run.Evaluate(t.Context(), composition.Expression(text, Condition)); err != nil ||
					result.Value != types.True {
					t.Fatal(result, err)
				}
			}
		}
	}
	if len(v.outcomes) != 4 {
		t.Errorf("%d evaluations, want 4", len(v.outcomes))
	}
	// With variables that read alike, an expression of them is the same; with others it isn't.
	one, two := compiler.Compose(policyVariables("a", "1"), false), compiler.Compose(policyVariables("a", "1"), false)
	other := compiler.Compose(policyVariables("a", "2"), false)
	withParams := compiler.Compose(policyVariables("a", "1"), true)
	reading := func(c *Composition) *program { return c.Expression("variables.a == 1", Condition).program }
	if reading(one) != reading(two) || reading(one) == reading(other) || reading(one) == reading(withParams) {
		t.Error("expressions of variables are mistaken for each other")
	}
	if one.Expression("true", Condition).program != other.Expression("true", Condition).program {
		t.Error("an expression that reads no variables is compiled for each policy")
	}
	runtime.KeepAlive(one)
}

// An expression is planned with the functions that it calls only; that must make no difference to
// what it comes to and costs.
func TestPlanIsThatOfTheWholeEnvironment(t *testing.T) {
	expressions := []string{
		"object.metadata.name.startsWith('w') && object.metadata.name.size() < 5 || 1 + 1 == 3",
		"object.metadata.?labels['x'].orValue('y') == 'y'", "object.?a.or(object.?metadata).hasValue()",
		"optional.of(1).or(optional.none()).value() == 1", "[optional.of(1)].unwrapOpt() == [1]",
		"object.spec.containers.all(c, c.image.matches('^registry.*')) && 'abc'.find('b') == 'b'",
		"sets.contains([1, 2], [1]) && sets.intersects([1], [1]) && sets.equivalent([1], [1])",
		"[1, 2, 3].slice(0, 2) == [1, 2] && [[1], [2]].flatten() == [1, 2] && lists.range(3).size() == 3",
		"[3, 1].sort() == [1, 3] && [1, 1].distinct() == [1] && [1, 2].reverse()[0] == 2",
		"quantity('1Gi').isGreaterThan(quantity('1Mi')) && isQuantity('1')", "'a,b'.split(',').join('-') == 'a-b'",
		"ip('1.1.1.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
		"url('https://x/y').getHost() == 'x'",
		"semver('1.2.3').isLessThan(semver('2.0.0'))", "!format.dns1123Label().validate('x').hasValue()",
		"has(object.metadata.nope) || !has(object.metadata.name)", "object.metadata.name in ['web', 'x']",
		"timestamp('2023-01-01T00:00:00Z') < timestamp('2024-01-01T00:00:00Z') && duration('1h') > duration('1m')",
		"{'a': 1}.all(k, v, k == 'a' && v == 1) && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
		"[1, 2].exists_one(x, x == 1) && [1, 2].filter(x, x > 1).map(x, x * 2) == [4]",
		"dyn(1) == 1.0 && 1 < 1.5 && -1 < 0 && !(5 % 2 == 0) && 'a' + 'b' != 'c'", "1 / 0 == 1", costly(5),
		"object.nope.nope == 1", "int(object.metadata.name) == 1",
		"string(1) == '1' && bytes('x') == b'x' && double('1') == 1.0",
		"authorizer.path('/x').check('get').allowed()", "cel.bind(x, 1, x == 1)", "object.optMap(x, x).hasValue()",
		"object.?metadata.optMap(m, m.name).orValue('') == 'web'", "[1, 2].isSorted() && [1, 2].sum() == 3",
		"[1, 2].includes(2) && !['a'].includes('b') && 'a'.includes('a') && [[1]].includes([1])",
		"![quantity('1')].includes('x') && [[quantity('1')]].includes(['x']) && dyn(1).includes(1.0)",
		"dyn(null).includes(null) && !{'a': 1}.includes('a') && [{'a': 1}].includes({'a': 1})",
		"[1, 2].indexOf(1) == 0 && [1].first().value() == 1", "'x'.charAt(0) == 'x' && '%s'.format(['y']) == 'y'",
	}
	for _, text := range expressions {
		p := NewCompiler().condition(text)
		_ = withChecker(declarations{authorizer: true}, func(c *checker) error {
			ast, issues := c.env.Compile(text)
			if issues != nil {
				t.Logf("%s doesn't compile", text)
				return nil
			}
			whole, err := c.env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			value, details, err := whole.ContextEval(t.Context(), &frame{program: p,
				run: NewVariables(contentOf(pod()), nil, request, alice, allowing).Run(Inputs{Authorizer: true})})
			o := NewVariables(contentOf(pod()), nil, request, alice,
				allowing).Run(Inputs{Authorizer: true}).outcome(t.Context(),
				p)
			if o.cost != *details.ActualCost() || (err == nil) != (o.cause == nil) ||
				err != nil && err.Error() != o.cause.Error() || err == nil && o.value.Equal(value) != types.True {
				t.Errorf("%s\ngot  %v %d %v\nwant %v %d %v", text, o.value, o.cost, o.cause, value,
					*details.ActualCost(), err)
			}
			return nil
		})
	}
}
