// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"maps"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// Reads returns the fields that the expression reads, directly or by a variable, sorted: for example
// object.spec.containers[*].image, or request.userInfo.username. [*] stands for any element of a list or
// any key of a map. A list of which only the size is read ends with []. An expression that doesn't parse
// reads nothing.
func (e *Expression) Reads() []string {
	w := &readWalk{fields: map[string]bool{}}
	w.read(w.program(e.program))
	return slices.Sorted(maps.Keys(w.fields))
}

// A readWalk finds the fields that expressions read.
type readWalk struct {
	fields map[string]bool
	// of is the expression that is walked, bound has what the variables of its comprehensions stand for.
	of    *program
	bound map[string][]string
}

// program walks an expression, and returns the fields whose value it is.
func (w *readWalk) program(p *program) (fields []string) {
	of, bound := w.of, w.bound
	defer func() { w.of, w.bound = of, bound }()
	w.of, w.bound = p, map[string][]string{}
	_ = withChecker(p.declarations, func(c *checker) error {
		if parsed, issues := c.env.Parse(p.text); issues.Err() == nil {
			fields = w.walk(parsed.NativeRep().Expr())
		}
		return nil
	})
	return fields
}

func (w *readWalk) read(fields []string) {
	for _, field := range fields {
		w.fields[field] = true
	}
}

// walk returns the fields whose value the expression is. All other fields in it are read.
func (w *readWalk) walk(e celast.Expr) []string {
	switch e.Kind() {
	case celast.IdentKind:
		if fields, ok := w.bound[e.AsIdent()]; ok {
			return fields
		}
		return []string{e.AsIdent()}
	case celast.SelectKind:
		s := e.AsSelect()
		if s.Operand().Kind() == celast.IdentKind && s.Operand().AsIdent() == variablesVariable {
			return w.variable(s.FieldName())
		}
		fields := below(w.walk(s.Operand()), s.FieldName())
		if s.IsTestOnly() {
			w.read(fields)
			return nil
		}
		return fields
	case celast.CallKind:
		return w.call(e.AsCall())
	case celast.ListKind:
		var whole []string
		for _, element := range e.AsList().Elements() {
			fields := w.walk(element)
			for _, field := range fields {
				if list, ok := strings.CutSuffix(field, "[*]"); ok {
					whole = append(whole, list) // as filter() makes it
				} else {
					w.fields[field] = true
				}
			}
		}
		return whole
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.read(w.walk(entry.AsMapEntry().Key()))
			w.read(w.walk(entry.AsMapEntry().Value()))
		}
	case celast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			w.read(w.walk(field.AsStructField().Value()))
		}
	case celast.ComprehensionKind:
		return w.comprehension(e.AsComprehension())
	}
	return nil
}

// call walks a call of a function or an operator.
func (w *readWalk) call(call celast.CallExpr) []string {
	args := call.Args()
	var target []string
	if call.IsMemberFunction() {
		target = w.walk(call.Target())
	}
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		in := w.walk(args[0])
		if key, ok := constant(args[1]); ok {
			return below(in, key)
		}
		w.read(w.walk(args[1]))
		return elements(in)
	case operators.In:
		in := w.walk(args[1])
		if key, ok := constant(args[0]); ok && len(in) > 0 {
			in = below(in, key)
		}
		w.read(append(w.walk(args[0]), in...))
		return nil
	case operators.Add, "orValue", "or", "value": // one list and another; a value or its default
		for _, arg := range args {
			target = append(target, w.walk(arg)...)
		}
		return target
	case operators.Conditional:
		w.read(w.walk(args[0]))
		return append(w.walk(args[1]), w.walk(args[2])...)
	case "dyn", "optional.of":
		return w.walk(args[0])
	case "hasValue": // of optMap, which reads the value besides
		return nil
	case "size":
		for _, arg := range args {
			target = append(target, w.walk(arg)...)
		}
		for _, field := range target {
			w.fields[field+"[]"] = true
		}
		return nil
	}
	w.read(target)
	for _, arg := range args {
		w.read(w.walk(arg))
	}
	return nil
}

// comprehension walks all(), exists(), map(), filter() and the like.
func (w *readWalk) comprehension(c celast.ComprehensionExpr) []string {
	in := elements(w.walk(c.IterRange()))
	bound := maps.Clone(w.bound)
	defer func() { w.bound = bound }()
	w.bound[c.IterVar()], w.bound[c.AccuVar()] = in, w.walk(c.AccuInit())
	if c.HasIterVar2() {
		w.bound[c.IterVar2()] = in
	}
	w.read(w.walk(c.LoopCondition()))
	step := w.walk(c.LoopStep())
	w.bound[c.AccuVar()] = step
	return w.walk(c.Result())
}

// variable walks a variable of the policy.
func (w *readWalk) variable(name string) []string {
	if w.of.scope == nil {
		return nil
	}
	for _, v := range w.of.scope.variables[:w.of.visibleCount] {
		if v.name == name {
			return w.program(v.program)
		}
	}
	return nil
}

// constant returns a constant text or number.
func constant(e celast.Expr) (string, bool) {
	if e.Kind() != celast.LiteralKind {
		return "", false
	}
	switch value := e.AsLiteral().Value().(type) {
	case string:
		return value, true
	case int64:
		return "[*]", true
	}
	return "", false
}

// elements returns the elements of lists.
func elements(lists []string) []string {
	all := make([]string, len(lists))
	for i, list := range lists {
		all[i] = list + "[*]"
	}
	return all
}

// below returns the fields of a name in objects.
func below(objects []string, name string) []string {
	all := make([]string, len(objects))
	for i, object := range objects {
		switch {
		case name == "[*]":
			all[i] = object + name
		case strings.ContainsAny(name, "./"):
			all[i] = object + "[" + name + "]"
		default:
			all[i] = object + "." + name
		}
	}
	return all
}
