// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types/ref"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// anything is a kind of expressions that may come to anything, and may make objects and patches.
var anything = &Kind{withPatches: true}

// mustEnd ends the test if it still runs after a time in which any expression ends.
func mustEnd(what string) (done func()) {
	watch := time.AfterFunc(time.Minute, func() { panic("doesn't end: " + what) })
	return func() { watch.Stop() }
}

// Lists that share their elements are small, and have more elements than can ever be compared.
// Small results are small, unless many are kept. What is read is not part of the result.
func TestWorkIsCharged(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes each of these take minutes, and one goroutine evaluates them")
	}
	const text, short = "object.data.text", "object.data.text.substring(0, 1000)"
	many := func(s string) string { return "lists.range(100000).map(x, " + s + ")" }
	always := func(s string) string { return "lists.range(100000).all(x, " + s + ")" }
	texts := func(s string) string {
		return "[lists.range(10).map(x, " + text + ")].all(l, lists.range(10000).all(x, !(" + s + ")))"
	}
	lists := "[dyn('a')]" + strings.Repeat(".map(x, dyn([x, x]))", 40)
	maps := "[dyn('a')]" + strings.Repeat(".map(x, dyn({'a': x, 'b': x}))", 40)
	objects := "[dyn('a')]" + strings.Repeat(".map(x, dyn(Object.a{a: x, b: x}))", 40)
	literal := func(format string) (s string) {
		for i := range 1000 {
			s += fmt.Sprintf(format, i)
		}
		return s
	}
	sixteen := "[x" + strings.Repeat(", x", 15) + "]"
	for _, expression := range []string{
		lists + " == " + lists, lists + " != " + lists, maps + " == " + maps, objects + " == " + objects,
		"optional.of(" + lists + ") == optional.of(" + lists + ")", lists + "[0] in " + lists,
		"JSONPatch{value: " + lists + "} == JSONPatch{value: " + lists + "}",
		lists + ".includes(" + lists + "[0])", lists + ".includes(1)", "dyn({'a': " + lists + "}).includes(1)",
		"dyn({'a': " + lists + "}).includes({'a': " + lists + "})",
		lists + ".indexOf(" + lists + "[0])", "dyn(" + lists + ").lastIndexOf(1)", "dyn(" + lists + ").min()",
		"dyn(" + lists + ").sum()", "dyn(" + lists + ").isSorted()", "(" + lists + " + " + lists + ").distinct()",
		"sets.contains(" + lists + ", " + lists + ")", "sets.equivalent(" + lists + ", " + lists + ")",
		"sets.intersects(" + lists + ", " + lists + ")", "lists.range(60000).distinct()",

		many("'a'.replace('a', " + short + ")"), many("['a', " + short + "].join()"),
		many("'%s'.format([" + short + "])"), many("lists.range(60)"), many(sixteen + " + " + sixteen),
		many("[" + literal("%d, ") + "x]"), many("{" + literal("'%d': x, ") + "}"), many(text + ".split('', 60)"),

		always("{'a': object} == {'a': oldObject} || [oldObject, object].distinct().size() == 2"),
		always(text + ".charAt(x) == 'a'"), always("size(" + text + ") > 0"),
		always("int(" + text + ") == 1 || true"), always("double(" + text + ") == 1.0 || true"),
		always("bytes(" + text + ") != b'a'"), always("'b'.matches('((a{10}){10}){9}' + string(x)) || true"),
		text + ".matches('((a?){10}){90}b')", text + ".find('((a?){10}){90}b')", text + ".findAll('((a?){10}){90}b')",
		"[url('http://a/?' + " + text + ".replace('a', 'a&'))].map(u, lists.range(1000).map(x, u.getQuery()))",
		"[url('http://a/' + " + text + ")].all(u, " + always("u.getEscapedPath() != ''") + ")",
		texts("oldObject.data.text in l"),
		"[semver('1.2.3-' + " + text + ".substring(1).replace('a', 'a.') + 'a')].all(s, " +
			always("s.compareTo(s) == 0") + ")",
	} {
		e := NewCompiler().Expression(expression, anything, false)
		if err := e.Prepare(); err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		old := large()
		old.Data["text"] += "b"
		v := NewVariables(contentOf(large()), contentOf(old), request, alice, allowing)
		run := v.Run(Inputs{})
		var result Result
		var err error
		done := mustEnd(expression)
		if n := allocated(func() { result, err = run.Evaluate(t.Context(), e) }); n > 500<<20 {
			t.Errorf("%.100s allocates %d MB", expression, n>>20)
		}
		done()
		if err == nil && (result.Err == nil || !strings.Contains(result.Err.Error(), "cost limit exceeded")) {
			t.Errorf("%.100s: %v, %v, of the budget are left %d", expression, result.Err, err, run.budget)
		}
	}
}

// Values that double have no size of their own until they are written out.
func TestHugeMutations(t *testing.T) {
	lists := "[dyn('a')]" + strings.Repeat(".map(x, dyn([x, x]))", 40) + "[0]"
	objects := "[dyn('a')]" + strings.Repeat(".map(x, dyn(Object.a{a: x, b: x}))", 40) + "[0]"
	patch := func(value string) string { return "[JSONPatch{op: 'add', path: '/data', value: " + value + "}]" }
	for _, test := range []struct {
		kind *Kind
		text string
	}{
		{ApplyConfiguration, "Object{data: " + lists + "}"}, {ApplyConfiguration, "Object{data: {'a': " + lists + "}}"},
		{ApplyConfiguration, "Object{data: " + objects + "}"}, {JSONPatch, patch(lists)}, {JSONPatch, patch(objects)},
		{JSONPatch, patch("Object.a{a: [" + objects + "]}")},
	} {
		v := NewVariables(contentOf(large()), nil, request, alice, nil)
		result, err := v.Run(Inputs{}).Evaluate(t.Context(), NewCompiler().Expression(test.text, test.kind, false))
		if err != nil || result.Err != nil {
			t.Fatal(err, result.Err)
		}
		done := mustEnd(test.text)
		if err := written(test.kind, result.Value); !errors.Is(err, apiservercel.ErrOutOfBudget) {
			t.Errorf("%.100s: %v", test.text, err)
		}
		done()
	}
}

// written does what is done with the value of a mutation.
func written(kind *Kind, value ref.Val) error {
	var err error
	switch kind {
	case ApplyConfiguration:
		_, err = Configuration(value)
	case JSONPatch:
		_, err = Patch(value)
	}
	return err
}

// What ordinary policies do costs what it does in Kubernetes.
func TestOrdinaryWorkIsFree(t *testing.T) {
	for _, expression := range []string{
		"object == oldObject", "object.spec.containers.all(c, c.image.matches('^[a-z./]{1,200}(:[a-z0-9.]{1,128})?$'))",
		"object.metadata.name in ['a', 'b']", "size(object.metadata.name) < 64 && object.spec.containers.size() < 20",
		"object.spec.containers.map(c, c.name).distinct().size() == object.spec.containers.size()",
		"sets.contains(['a', 'b'], object.spec.containers.map(c, c.name))", "object.spec == object.spec",
	} {
		p := NewCompiler().Expression(expression, Condition, false).program
		compiled, err := p.compileOnce()
		if err != nil {
			t.Fatal(expression, err)
		}
		v := NewVariables(contentOf(pod()), contentOf(pod()), request, alice, nil)
		f := frame{run: v.Run(Inputs{}), program: p}
		if _, _, err := compiled.ContextEval(t.Context(), &f); err != nil || f.meter.cost() != 0 {
			t.Errorf("%s: %d units more, error %v", expression, f.meter.cost(), err)
		}
		if f.meter.units > freeUnits/10 {
			t.Errorf("%s takes %d of the free units", expression, f.meter.units)
		}
	}
}

// FuzzMemory looks for expressions that take or keep more memory, or take more time, than they are
// charged for.
func FuzzMemory(f *testing.F) {
	for _, seed := range []string{
		"object.data.text.replace('a', object.data.text) == ''", "'%s'.format([[object, object]]) == ''",
		"[object].map(x, [x, x]).map(x, [x, x]) == []", "lists.range(100000) == []", "'%.9f'.format([1.0]) == ''",
		"object.data.text.split('').map(x, x + x).join(object.data.text) == ''", "([1] + [2]).flatten() == []",
		"[dyn(1)].map(x, dyn([x, x])).map(x, dyn([x, x])) == [dyn(1)].map(x, dyn([x, x]))",
		"Object{a: [Object.a{b: 1}], b: {'c': object}}", "[JSONPatch{op: 'add', path: '/a', value: Object.a{b: [1]}}]",
		"lists.range(1000).map(x, object.data.text.substring(0, 900))", "[object, oldObject].distinct()",
		"lists.range(1000).map(x, 'a'.replace('a', object.data.text))", "{'a': object} == {'a': oldObject}",
		"sets.contains([object], [oldObject])", "object.data.text.matches('(a{9}){9}b' + object.metadata.name)",
		"url('http://a/?' + object.data.text).getQuery()", "lists.range(1000).map(x, object.data.text.charAt(x))",
		"semver('1.0.0').compareTo(semver('1.0.0-' + object.data.text))", "bytes(object.data.text)",
		"quantity('1e1000').add(quantity(object.data.text))", "optional.of(object) == optional.of(oldObject)",
	} {
		f.Add(seed)
	}
	object := large()
	object.Data["text"] = object.Data["text"][:4000]
	f.Fuzz(func(t *testing.T, text string) {
		e := NewCompiler().Expression(text, anything, false)
		if e.Prepare() != nil {
			return
		}
		v := NewVariables(contentOf(object), contentOf(object), request, alice, nil)
		run := v.Run(Inputs{})
		defer mustEnd(text)()
		var result Result
		var err error
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := allocated(func() { result, err = run.Evaluate(t.Context(), e) })
		if err != nil && !errors.Is(err, apiservercel.ErrOutOfBudget) {
			t.Fatalf("%q: %v", text, err)
		}
		// A unit pays for 10 bytes of a text, and for some hundred of small values. Half of that is
		// what Kubernetes keeps for itself until the end.
		spent := celconfig.RuntimeCELCostBudget - run.budget
		if n > 64<<20+500*spent {
			t.Errorf("%q allocates %d bytes and costs %d", text, n, spent)
		}
		if n > 32<<20 && result.Value != nil {
			runtime.GC()
			runtime.ReadMemStats(&after)
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > int64(16<<20+100*spent) {
				t.Errorf("%q keeps %d bytes and costs %d", text, kept, spent)
			}
			runtime.KeepAlive(result)
		}
		if result.Value == nil {
			return
		}
		n = allocated(func() {
			_ = written(ApplyConfiguration, result.Value)
			_ = written(JSONPatch, result.Value)
		})
		if n > 64<<20+500*spent {
			t.Errorf("%q allocates %d bytes to be written, and costs %d", text, n, spent)
		}
	})
}
