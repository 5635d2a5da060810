// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// large returns an object with a text of 400 kB.
func large() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Data: map[string]string{"text": strings.Repeat("a", 400_000)}}
}

func TestResultsAreRefusedBeforeTheyAreAllocated(t *testing.T) {
	const text = "object.data.text"
	doubled := func(list string) string { return list + strings.Repeat(".map(x, x + x)", 40) + "[0]" }
	for _, expression := range []string{
		text + ".replace('a', " + text + ") == ''",
		text + ".replace('', " + text + ") == ''",
		text + ".replace('a', " + text + ", 100000) == ''",
		text + ".split('').map(x, " + text + ").join() == ''",
		"[0, 1].map(x, " + text + ".replace('a', " + text + ")).size() == 2",
		"'%s'.format([" + text + ".split('').map(x, " + text + ")]) == ''",
		"'%.1000000000f'.format([1.0]) == ''",
		"(object.data.text == '' ? '' : '%.1000000000f').format([1.0]) == ''",
		doubled("[['a']]") + ".join(" + text + ") == ''",
		doubled("[['a']]") + ".size() == 0",
		doubled("[[[]]]") + ".flatten() == []",
		"lists.range(1000000000).size() == 0",
		text + ".split('').map(x, lists.range(1000)).flatten().size() == 0",
		"dyn(" + text + ").replace('a', " + text + ") == ''",
		"true || " + text + ".replace('a', " + text + ") == ''",
	} {
		e := NewCompiler().Expression(expression, Condition, false)
		if err := e.Prepare(); err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		v := NewVariables(contentOf(large()), nil, request, alice, nil)
		run := v.Run(Inputs{})
		var result Result
		var err error
		if n := allocated(func() { result, err = run.Evaluate(t.Context(), e) }); n > 300<<20 {
			t.Errorf("%s allocates %d MB", expression, n>>20)
		}
		if strings.HasPrefix(expression, "true") {
			continue
		}
		if err != nil || result.Err == nil || !strings.Contains(result.Err.Error(), "cost limit exceeded") {
			t.Errorf("%s: %+v, %v", expression, result, err)
		}
		if left := uint64(celconfig.RuntimeCELCostBudget - celconfig.PerCallLimit); run.budget > left {
			t.Errorf("%s leaves %d, want at most %d", expression, run.budget, left)
		}
	}
}

// Variables pay for what they keep: none of them is too large, but all together would be.
func TestVariablesThatDouble(t *testing.T) {
	variables := []string{"v0", "object.data.text.split('')"}
	for i := range 40 {
		of := string(rune('A'+i)) + "x"
		variables = append(variables, of, "variables."+variables[len(variables)-2]+" + variables."+
			variables[len(variables)-2])
	}
	last := "variables." + variables[len(variables)-2]
	e := NewCompiler().Compose(policyVariables(variables...), false).Expression(last+".size() > 0", Condition)
	v := NewVariables(contentOf(large()), nil, request, alice, nil)
	var result Result
	var err error
	if n := allocated(func() { result, err = v.Run(Inputs{}).Evaluate(t.Context(), e) }); n > 300<<20 {
		t.Errorf("allocated %d MB", n>>20)
	}
	if err == nil && result.Err == nil {
		t.Errorf("%+v", result)
	}
}

// Ordinary results cost what they cost in kube-apiserver.
func TestSmallResultsCostTheSame(t *testing.T) {
	for _, expression := range []string{
		"'a,b'.replace(',', '--') == 'a--b'", "['a', 'b'].join('-') == 'a-b'",
		"'%s is %d'.format(['a', 1]) == 'a is 1'",
		"([1, 2] + [3]).size() == 3", "'a b'.split(' ').map(x, x + x) == ['aa', 'bb']",
		"lists.range(3) == [0, 1, 2]", "[[1], [2]].flatten() == [1, 2]", "dyn([1]) + dyn([2]) == [1, 2]",
		"'a' + 'b' == 'ab'", "1 + 2 == 3", "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
	} {
		var costs []uint64
		err := withChecker(declarations{}, func(c *checker) error {
			ast, issues := c.env.Compile(expression)
			if issues != nil {
				return issues.Err()
			}
			ours, err := c.plan(ast)
			if err != nil {
				return err
			}
			theirs, err := c.env.Program(ast)
			if err != nil {
				return err
			}
			for _, p := range []cel.Program{ours, theirs} {

				value, details, err := p.Eval(map[string]any{})
				if err != nil || value.Value() != true {
					t.Errorf("%s: %v, %v", expression, value, err)
				}
				costs = append(costs, *details.ActualCost())
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", expression, err)
		} else if costs[0] != costs[1] {
			t.Errorf("%s costs %d, in kube-apiserver %d", expression, costs[0], costs[1])
		}
	}
}

func TestLongQuantities(t *testing.T) {
	object := large()
	object.Data["text"] = strings.Repeat("1", 1025)
	for _, test := range []struct {
		expression string
		err        string
	}{
		{"!isQuantity('1e99999999')", ""},
		{"quantity('1e99999999').compareTo(quantity('1500m')) == 1", resource.ErrFormatWrong.Error()},
		{"!isQuantity(object.data.text)", ""},
		{"isQuantity(object.data.text.substring(1))", ""},
		{"quantity(object.data.text).isInteger()", resource.ErrFormatWrong.Error()},
	} {
		e := NewCompiler().Expression(test.expression, Condition, false)
		v := NewVariables(contentOf(object), nil, request, alice, nil)
		result, err := v.Run(Inputs{}).Evaluate(t.Context(), e)
		switch {
		case err != nil:
			t.Errorf("%s: %v", test.expression, err)
		case test.err == "" && (result.Err != nil || result.Value.Value() != true),
			test.err != "" && (result.Err == nil || !strings.Contains(result.Err.Error(), test.err)):
			t.Errorf("%s: %+v, want the error %q", test.expression, result, test.err)
		}
	}
}

// A list that holds one value many times is small until it is written as JSON.
func TestHugePatches(t *testing.T) {
	text := "[JSONPatch{op: 'add', path: '/data', value: ['a']" + strings.Repeat(".map(x, [x, x])", 40) + "}]"
	text = strings.Replace(text, "['a'].map(x, [x, x])", "[dyn('a')].map(x, dyn([x, x]))", 1)
	text = strings.ReplaceAll(text, ".map(x, [x, x])", ".map(x, dyn([x, x]))")
	e := NewCompiler().Expression(text, JSONPatch, false)
	v := NewVariables(contentOf(large()), nil, request, alice, nil)
	result, err := v.Run(Inputs{}).Evaluate(t.Context(), e)
	if err != nil || result.Err != nil {
		t.Fatal(err, result.Err)
	}
	if _, err := Patch(result.Value); !errors.Is(err, apiservercel.ErrOutOfBudget) {
		t.Errorf("the error is %v", err)
	}
}
