// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	celoperators "github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Known is what is known about a request before it comes.
type Known struct {
	// Request are the known fields of request, as CEL reads them. resource and kind may have only some of theirs.
	Request map[string]any
	// NoObject and NoOldObject report that object or oldObject is null, NoNamespace that namespaceObject is.
	NoObject, NoOldObject, NoNamespace bool
	// Kind is the kind of object and oldObject; empty if it isn't known.
	Kind schema.GroupVersionKind
}

// Outcome is what is known about the result of an expression.
type Outcome string

// The outcomes. Depends means that the result depends on what isn't known.
const (
	Depends    Outcome = "depends"
	AlwaysTrue Outcome = "true"
	AlwaysNot  Outcome = "false"
	// Fails means that the evaluation always ends with an error.
	Fails Outcome = "fails"
	// Other is a constant that is no boolean.
	Other Outcome = "other"
)

// A Partial evaluates expressions as far as that is possible without the objects of a request.
type Partial struct {
	values    map[string]any
	patterns  []*cel.AttributePatternType
	variables map[string]any
	// kind is the kind of the objects. They are the variables that aren't null.
	kind    schema.GroupVersionKind
	objects []string
}

// NewPartial returns a Partial for requests of which something is known.
func NewPartial(known Known) *Partial {
	p := &Partial{variables: map[string]any{}, kind: known.Kind}
	p.values = map[string]any{requestVariable: known.Request, variablesVariable: p.variables}
	unknown := func(name string, isNull bool) {
		if isNull {
			p.values[name] = types.NullValue
		} else {
			p.patterns = append(p.patterns, cel.AttributePattern(name))
		}
	}
	for name, isNull := range map[string]bool{objectVariable: known.NoObject, oldObjectVariable: known.NoOldObject} {
		if p.values[name] = types.NullValue; !isNull {
			p.objects = append(p.objects, name)
		}
	}
	unknown(namespaceVariable, known.NoNamespace)
	unknown(paramsVariable, false)
	unknown(authorizerVariable, false)
	unknown(requestResourceVariable, false)
	for name, field := range requestType().Fields {
		value, is := known.Request[name]
		if !is {
			p.patterns = append(p.patterns, cel.AttributePattern(requestVariable).QualString(name))
			continue
		}
		part, _ := value.(map[string]any)
		for below := range field.Type.Fields {
			if _, is := part[below]; !is {
				p.patterns = append(p.patterns, cel.AttributePattern(requestVariable).QualString(name).QualString(below))
			}
		}
	}
	return p
}

// Declare evaluates a policy's variables, in order, so that expressions can read them.
func (p *Partial) Declare(variables []admissionregistrationv1.Variable) {
	for _, v := range variables {
		value, err := p.evaluate(v.Expression)
		if err != nil || types.IsUnknownOrError(value) {
			p.patterns = append(p.patterns, cel.AttributePattern(variablesVariable).QualString(v.Name))
			continue
		}
		p.variables[v.Name] = value
	}
}

// Outcome returns what is known about the result of an expression. The error is that of an expression that
// doesn't compile. message is the error of an evaluation that always fails.
func (p *Partial) Outcome(text string) (outcome Outcome, message string, _ error) {
	value, err := p.evaluate(text)
	if err != nil {
		return Depends, "", err
	}
	switch value := value.(type) {
	case *types.Unknown:
		if failure := p.failure(text); failure != nil {
			return Fails, failure.Error(), nil
		}
		return Depends, "", nil
	case *types.Err:
		return Fails, value.Error(), nil
	case types.Bool:
		if value {
			return AlwaysTrue, "", nil
		}
		return AlwaysNot, "", nil
	}
	return Other, "", nil
}

// evaluate returns the value of an expression, which may be unknown or an error. The error is that of an
// expression that doesn't compile.
func (p *Partial) evaluate(text string) (value ref.Val, err error) {
	d := declarations{variables: true, params: true, authorizer: true}
	err = withChecker(d, func(c *checker) error {
		ast, issues := partialAST(c, text)
		if issues != nil {
			return fmt.Errorf("compilation failed: %w", issues)
		}
		program, err := c.env.Program(ast, cel.EvalOptions(cel.OptPartialEval))
		if err != nil {
			return err
		}
		values, patterns := p.objectsOf(ast)
		vars, err := cel.PartialVars(values, patterns...)
		if err != nil {
			return err
		}
		result, _, err := program.Eval(vars)
		if value = result; err != nil {
			value = types.WrapErr(err)
		}
		return nil
	})
	return value, err
}

// failure returns the error of an operand that an expression always evaluates, or nil if there is none: whatever isn't
// known, the expression fails then. CEL's evaluation doesn't say so, as an operand that isn't known may fail as well.
func (p *Partial) failure(text string) *types.Err {
	for _, operand := range operandsOf(text) {
		value, err := p.evaluate(operand)
		if err != nil {
			continue // a part that can't be written as an expression
		}
		if failure, ok := value.(*types.Err); ok {
			return failure
		}
		if types.IsUnknown(value) {
			if failure := p.failure(operand); failure != nil {
				return failure
			}
		}
	}
	return nil
}

// operandsOf returns the operands that an expression evaluates whatever their values are.
func operandsOf(text string) (operands []string) {
	_ = withChecker(declarations{variables: true, params: true, authorizer: true}, func(c *checker) error {
		parsed, issues := c.env.Parse(text)
		if issues != nil {
			return issues.Err()
		}
		ast := parsed.NativeRep()
		add := func(all ...celast.Expr) {
			for _, e := range all {
				if operand, err := parser.Unparse(e, ast.SourceInfo()); err == nil {
					operands = append(operands, operand)
				}
			}
		}
		switch e := ast.Expr(); e.Kind() {
		case celast.SelectKind:
			add(e.AsSelect().Operand())
		case celast.ListKind:
			add(e.AsList().Elements()...)
		case celast.ComprehensionKind:
			add(e.AsComprehension().IterRange())
		case celast.CallKind:
			call := e.AsCall()
			switch call.FunctionName() {
			case celoperators.LogicalAnd, celoperators.LogicalOr, celoperators.NotStrictlyFalse:
				return nil
			case celoperators.Conditional:
				add(call.Args()[0])
				return nil
			}
			if call.IsMemberFunction() {
				add(call.Target())
			}
			add(call.Args()...)
		}
		return nil
	})
	return operands
}

// objectsOf returns the values and what isn't known of them, for an expression. Of an object only its kind is known,
// and nothing if the expression doesn't only read fields of it.
func (p *Partial) objectsOf(ast *cel.Ast) (map[string]any, []*cel.AttributePatternType) {
	values, patterns := maps.Clone(p.values), slices.Clone(p.patterns)
	for _, name := range p.objects {
		fields, all := fieldsOf(ast.NativeRep().Expr(), name)
		if p.kind.Empty() || !all {
			patterns = append(patterns, cel.AttributePattern(name))
			continue
		}
		apiVersion, kind := p.kind.ToAPIVersionAndKind()
		values[name] = map[string]any{"apiVersion": apiVersion, "kind": kind}
		for _, field := range fields {
			if field != "apiVersion" && field != "kind" {
				patterns = append(patterns, cel.AttributePattern(name).QualString(field))
			}
		}
	}
	return values, patterns
}

// fieldsOf returns the fields of a variable that an expression reads. all reports whether it reads nothing else of
// the variable.
func fieldsOf(e celast.Expr, variable string) (fields []string, all bool) {
	isVariable := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == variable }
	others := 0
	celast.PostOrderVisit(e, celast.NewExprVisitor(func(e celast.Expr) {
		switch {
		case isVariable(e):
			others++
		case e.Kind() == celast.SelectKind && isVariable(e.AsSelect().Operand()):
			others--
			fields = append(fields, e.AsSelect().FieldName())
		}
	}))
	return fields, others == 0
}

// partialAST checks an expression. Variables of policies may have any type.
func partialAST(c *checker, text string) (*cel.Ast, error) {
	parsed, issues := c.env.Parse(text)
	if issues != nil && issues.Err() != nil {
		return nil, issues.Err()
	}
	names := map[string]bool{}
	celast.PostOrderVisit(parsed.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.SelectKind && e.AsSelect().Operand().Kind() == celast.IdentKind &&
			e.AsSelect().Operand().AsIdent() == variablesVariable {
			names[e.AsSelect().FieldName()] = true
		}
	}))
	fields := fieldTypes{}
	for name := range names {
		fields[name] = requiredField(declType(cel.DynType))
	}
	c.variables.Fields = newObjectType("variables", fields).Fields
	ast, issues := c.env.Check(parsed)
	if issues != nil && issues.Err() != nil {
		return nil, issues.Err()
	}
	return ast, nil
}

// Reads returns the fields that an expression reads, such as request.namespace and object.metadata.labels,
// in order. The error is that of an expression that doesn't parse.
func Reads(text string) (fields []string, err error) {
	err = withChecker(declarations{variables: true, params: true, authorizer: true}, func(c *checker) error {
		parsed, issues := c.env.Parse(text)
		if issues != nil && issues.Err() != nil {
			return issues.Err()
		}
		found := map[string]bool{}
		longest(parsed.NativeRep().Expr(), found)
		fields = slices.Sorted(maps.Keys(found))
		return nil
	})
	return fields, err
}

// longest adds the fields below an expression, each in full.
func longest(e celast.Expr, found map[string]bool) {
	if path, ok := pathOf(e); ok {
		found[path] = true
		return
	}
	switch e.Kind() {
	case celast.SelectKind:
		longest(e.AsSelect().Operand(), found)
	case celast.CallKind:
		if e.AsCall().IsMemberFunction() {
			longest(e.AsCall().Target(), found)
		}
		for _, arg := range e.AsCall().Args() {
			longest(arg, found)
		}
	case celast.ListKind:
		for _, element := range e.AsList().Elements() {
			longest(element, found)
		}
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			longest(entry.AsMapEntry().Key(), found)
			longest(entry.AsMapEntry().Value(), found)
		}
	case celast.ComprehensionKind:
		found["a comprehension"] = true
	}
}

// pathOf returns the path of an identifier with its fields.
func pathOf(e celast.Expr) (string, bool) {
	var names []string
	for e.Kind() == celast.SelectKind {
		names = append(names, e.AsSelect().FieldName())
		e = e.AsSelect().Operand()
	}
	if e.Kind() != celast.IdentKind {
		return "", false
	}
	names = append(names, e.AsIdent())
	slices.Reverse(names)
	return strings.Join(names, "."), true
}
