// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source: TestTypeResolver and TestCELOptional in
// k8s.io/apiserver/pkg/cel/mutation/typeresolver_test.go, TestObjectTypeNames… in dynamic/, and the
// messages of k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.
func TestConfiguration(t *testing.T) {
	for _, test := range []struct{ name, expression, want, err string }{
		{"nothing", "Object{}", "{}", ""},
		{"a field", "Object{spec: Object.spec{replicas: 1 + 2}}", `{"spec":{"replicas":3}}`, ""},
		{"lists and maps", `Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", args: ["-g"]}]},
			metadata: Object.metadata{labels: {"a": "b"}}}`,
			`{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"args":["-g"],"name":"c"}]}}`, ""},
		{"what the object has", "Object{spec: object.spec}",
			`{"spec":{"containers":[{"image":"nginx","name":"c","resources":{}}]}}`, ""},
		{"items made of items", "Object{spec: Object.spec{containers: object.spec.containers.map(c, " +
			"Object.spec.containers{name: c.name, image: 'x'})}}", `{"spec":{"containers":[{"image":"x","name":"c"}]}}`,
			""},
		{"an optional field that isn't", "Object{?spec: object[?'nope']}", "{}", ""},
		{"an optional field that is", "Object{metadata: Object.metadata{?name: object.metadata.?name}}",
			`{"metadata":{"name":"web"}}`, ""},
		{"a field of another", "Object{metadata: Object.metadata{name: Object{x: 'y'}.x}}", `{"metadata":{"name":"y"}}`,
			""},
		{"apiVersion isn't left out here", "Object{apiVersion: 'v2'}", `{"apiVersion":"v2"}`, ""},

		{"a wrong name", "Object{spec: Object.specx{replicas: 1}}", "",
			`type mismatch: unexpected type name "Object.specx", ` +
				`expected "Object.spec", which matches field name path from root Object type`},
		{"a wrong name in a list", "Object{spec: [Object.specx{}]}", "",
			`type mismatch: unexpected type name "Object.specx", ` +
				`expected "Object.spec", which matches field name path from root Object type`},
		{"a key that isn't a string", "Object{labels: {1: 'a'}}", "",
			`invalid return type: fail to convert field "labels": map key '\x01' is of type types.Int, not string`},
		{"not an Object", "'a teapot'", "", "compilation error: must evaluate to Object but got string"},
		{"a part of one", "Object.spec{}", "", "compilation error: must evaluate to Object but got Object.spec"},
		{"not a type", "Invalid{}", "",
			"compilation error: compilation failed: ERROR: <input>:1:8: undeclared reference to 'Invalid'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := evaluated(t, test.expression, ApplyConfiguration, func(r Result) (any, error) {
				return Configuration(r.Value)
			})
			compare(t, got, err, test.want, test.err)
		})
	}
}

// Source: as above, and TestJSONPatch in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch_test.go.
func TestPatch(t *testing.T) {
	value := func(value string) string { return `[JSONPatch{op: "add", path: "/x", value: ` + value + `}]` }
	add := func(value string) string { return `[{"op":"add","path":"/x","value":` + value + `}]` }
	for _, test := range []struct{ name, expression, want, err string }{
		{"all fields", `[JSONPatch{op: "move", path: "/a", from: "/b"}]`, `[{"from":"/b","op":"move","path":"/a"}]`,
			""},
		{"no field", "[JSONPatch{}]", `[{"op":"","path":""}]`, ""},
		{"no operation", `[JSONPatch{}].filter(p, false)`, `[]`, ""},
		{"a condition", `true ? [JSONPatch{op: "remove", path: "/x"}] : []`, `[{"op":"remove","path":"/x"}]`, ""},
		{"a key", `[JSONPatch{op: "remove", path: "/x/" + jsonpatch.escapeKey("k8s.io/x~y")}]`,
			`[{"op":"remove","path":"/x/k8s.io~1x~0y"}]`, ""},
		{"a string", value(`"é\u0001\""`), add(`"é\u0001\""`), ""},
		{"an int", value("3"), add("3"), ""},
		{"a large int", value("9007199254740993"), add(`"9007199254740993"`), ""},
		{"a double", value("1.5"), add("1.5"), ""},
		{"null", value("null"), add("null"), ""},
		{"bytes", value("b'x'"), add(`"eA=="`), ""},
		{"a duration", value("duration('1s')"), add(`"1s"`), ""},
		{"a map", value("{'a': [1, 2]}"), add(`{"a":[1,2]}`), ""},
		{"the object", value("object.spec.containers"), add(`[{"image":"nginx","name":"c","resources":{}}]`), ""},
		{"an Object", value("Object.spec{replicas: 10, selector: Object.spec.selector{}}"),
			add(`{"replicas":10,"selector":{}}`), ""},
		{"an Object of any name", value("Object.nope{a: 1}"), add(`{"a":1}`), ""},
		{"Objects in a list", value("[Object.spec{a: 1}]"), add(`[{"a":1}]`), ""},
		{"fields of patches", value("{'op': JSONPatch{op: 'o'}.op, 'has': string(has(JSONPatch{}.value))}"),
			add(`{"has":"false","op":"o"}`), ""},
		{"patches are compared", value("JSONPatch{op: 'x', value: 1} == JSONPatch{op: 'x', value: 1}"), add("true"),
			""},

		{"a wrong name", value("Object.spec{a: Object.b{}}"), "",
			`type mismatch: unexpected type name "Object.b", expected ` +
				`"Object.spec.a", which matches field name path from root Object type`},
		{"a key that isn't a string", value("{1: 'a'}"), "",
			"JSONPath valueExpression evaluated to a type that could not " +
				"marshal to JSON: unsupported type conversion from 'int' to string"},
		{"a quantity", value("quantity('1')"), "",
			"JSONPath valueExpression evaluated to a type that could not marshal to " +
				"JSON: type conversion error from 'Quantity' to '*structpb.Value'"},
		{"a patch in a patch", value("JSONPatch{}"), "",
			"JSONPath valueExpression evaluated to a type that could not " +
				"marshal to JSON: cannot convert to native type: *structpb.Value"},
		{"null in an Object", value("Object.spec{a: null}"), "",
			"JSONPath valueExpression evaluated to a type that could " +
				"not marshal to JSON: proto:"},
		{"another type of field", "[JSONPatch{op: 1}]", "",
			"compilation error: compilation failed: ERROR: <input>:1:14: " +
				"expected type of field 'op' is 'string' but provided type is 'int'"},
		{"not a list", "JSONPatch{}", "", "compilation error: must evaluate to list(JSONPatch) but got JSONPatch"},
		{"an empty list, as upstream", "[]", "",
			"compilation error: must evaluate to list(JSONPatch) but got list(dyn)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := evaluated(t, test.expression, JSONPatch, func(r Result) (any, error) { return Patch(r.Value) })
			compare(t, got, err, test.want, test.err)
		})
	}
}

func evaluated(t *testing.T, text string, kind *Kind, result func(Result) (any, error)) (any, error) {
	t.Helper()
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}}
	e := NewCompiler().Compose(nil, false).Expression(text, kind)
	r, err := NewVariables(contentOf(pod), nil, nil, nil, nil).Run(Inputs{}).Evaluate(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if r.Err != nil {
		return nil, r.Err
	}
	return result(r)
}

func compare(t *testing.T, got any, err error, want, wantErr string) {
	t.Helper()
	if err != nil || wantErr != "" {
		if wantErr == "" || !strings.HasPrefix(fmt.Sprint(err), wantErr) {
			t.Errorf("got error  %v\nwant error %s", err, wantErr)
		}
		return
	}
	encoded, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(encoded, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		t.Fatalf("got %s, want %s", encoded, want)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("-want +got: %s", diff)
	}
}

// What was found out about one object isn't taken for another; the rest is.
func TestSetObject(t *testing.T) {
	composition := NewCompiler().Compose(policyVariables("name", "object.metadata.name", "user", "request.userInfo"),
		false)
	variables := NewVariables(nil, nil, nil, nil, nil)
	reads := composition.Expression("variables.name == 'two' && !has(object.spec)", Condition)
	doesnt := composition.Expression("oldObject == null", Condition)
	made := 0
	for _, name := range []string{"one", "two"} {
		variables.SetObject(func() (map[string]any, error) {
			made++
			return map[string]any{"metadata": map[string]any{"name": name}}, nil
		})
		for range 2 {
			run := variables.Run(Inputs{})
			for _, e := range []*Expression{reads, doesnt} {
				r, err := run.Evaluate(t.Context(), e)
				if err != nil || r.Err != nil {
					t.Fatal(err, r.Err)
				}
				if got := r.Value.Value() == true; got != (e == doesnt || name == "two") {
					t.Errorf("with object %s it is %v", name, got)
				}
			}
		}
	}
	if made != 2 {
		t.Errorf("two objects were asked for %d times", made)
	}
	if kept := len(variables.outcomes); kept != 3 {
		t.Errorf("%d outcomes are remembered, want those of two expressions and a variable", kept)
	}
	variables.SetObject(func() (map[string]any, error) { return nil, fmt.Errorf("it is odd") })
	if kept := len(variables.outcomes); kept != 1 {
		t.Errorf("%d outcomes are remembered, want that of one expression", kept)
	}
	r, err := variables.Run(Inputs{}).Evaluate(t.Context(), reads)
	if err != nil || r.Err == nil || !strings.Contains(r.Err.Error(),
		"failed to prepare object variable for evaluation: it is odd") {
		t.Error(err, r.Err)
	}
}
