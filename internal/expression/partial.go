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

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Known is what is known about a request before it comes.
type Known struct {
	// Request is the request as expressions see it; nil if nothing is known of it. Unknown are its fields whose values
	// are only examples: name, or resource.version.
	Request *admissionv1.AdmissionRequest
	Unknown []string
	// NoObject and NoOldObject report that object or oldObject is null, NoNamespace that namespaceObject is.
	NoObject, NoOldObject, NoNamespace bool
	// Kind is the kind of object and oldObject; empty if it isn't known.
	Kind schema.GroupVersionKind
	// Lacks are the fields of metadata that object doesn't have.
	Lacks []string
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
	// lacks are the fields of metadata that object doesn't have.
	lacks []string
}

// NewPartial returns a Partial for requests of which something is known.
func NewPartial(known Known) *Partial {
	p := &Partial{variables: map[string]any{}, kind: known.Kind, lacks: known.Lacks}
	p.values = map[string]any{variablesVariable: p.variables}
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
	if known.Request == nil {
		unknown(requestVariable, false)
		return p
	}
	p.values[requestVariable] = celRequest(known.Request)
	for _, field := range known.Unknown {
		pattern := cel.AttributePattern(requestVariable)
		for name := range strings.SplitSeq(field, ".") {
			pattern = pattern.QualString(name)
		}
		p.patterns = append(p.patterns, pattern)
	}
	return p
}

// Declare evaluates a policy's variables, in order, so that expressions can read them.
func (p *Partial) Declare(variables []admissionregistrationv1.Variable) {
	for _, v := range variables {
		value, err := p.evaluate(v.Expression, Variable)
		if failure, ok := value.(*types.Err); ok && err == nil {
			p.variables[v.Name] = types.NewErr("composited variable %q fails to evaluate: %v", v.Name, failure)
			continue
		}
		if err != nil || types.IsUnknown(value) {
			p.patterns = append(p.patterns, cel.AttributePattern(variablesVariable).QualString(v.Name))
			continue
		}
		p.variables[v.Name] = value
	}
}

// Outcome returns what is known about the result of an expression of a kind. The error is that of an expression that
// doesn't compile. message is the error of an evaluation that always fails. If the outcome depends, it is that of an
// operand of && or || that always fails: then the other operand decides, or the evaluation fails.
func (p *Partial) Outcome(text string, kind *Kind) (outcome Outcome, message string, _ error) {
	value, err := p.evaluate(text, kind)
	if err != nil {
		return Depends, "", err
	}
	switch value := value.(type) {
	case *types.Unknown:
		if failure := p.failure(text, kind); failure != nil {
			return Fails, failure.Error(), nil
		}
		if failure := p.partFailure(text, kind); failure != nil {
			return Depends, failure.Error(), nil
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
func (p *Partial) evaluate(text string, kind *Kind) (value ref.Val, err error) {
	err = withChecker(declarationsOf(kind), func(c *checker) error {
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

// declarationsOf returns what is declared for expressions of a kind, whatever the policy.
func declarationsOf(kind *Kind) declarations {
	return declarations{variables: true, params: true, authorizer: !kind.withoutAuthorizer, patches: kind.withPatches}
}

// failure returns the error of an operand that an expression always evaluates, or nil if there is none: whatever isn't
// known, the expression fails then. CEL's evaluation doesn't say so, as an operand that isn't known may fail as well.
func (p *Partial) failure(text string, kind *Kind) *types.Err {
	operands, _ := operandsOf(text, kind)
	for _, operand := range operands {
		value, err := p.evaluate(operand, kind)
		if err != nil {
			continue // a part that can't be written as an expression
		}
		if failure, ok := value.(*types.Err); ok {
			return failure
		}
		if types.IsUnknown(value) {
			if failure := p.failure(operand, kind); failure != nil {
				return failure
			}
		}
	}
	return nil
}

// partFailure returns the error of an operand of a logical operator that always fails, or nil if there is none.
func (p *Partial) partFailure(text string, kind *Kind) *types.Err {
	_, operands := operandsOf(text, kind)
	for _, operand := range operands {
		value, err := p.evaluate(operand, kind)
		if err != nil {
			continue
		}
		failure, _ := value.(*types.Err)
		if failure == nil && types.IsUnknown(value) {
			failure = p.failure(operand, kind)
		}
		if failure == nil && types.IsUnknown(value) {
			failure = p.partFailure(operand, kind)
		}
		if failure != nil {
			return failure
		}
	}
	return nil
}

// operandsOf returns the operands that an expression evaluates whatever their values are, and those of a logical
// operator, of which one may decide alone.
func operandsOf(text string, kind *Kind) (operands, alternatives []string) {
	_ = withChecker(declarationsOf(kind), func(c *checker) error {
		parsed, issues := c.env.Parse(text)
		if issues != nil {
			return issues.Err()
		}
		ast := parsed.NativeRep()
		addTo := func(list *[]string, all ...celast.Expr) {
			for _, e := range all {
				if operand, err := parser.Unparse(e, ast.SourceInfo()); err == nil {
					*list = append(*list, operand)
				}
			}
		}
		add := func(all ...celast.Expr) { addTo(&operands, all...) }
		switch e := ast.Expr(); e.Kind() {
		case celast.SelectKind:
			add(e.AsSelect().Operand())
		case celast.ListKind:
			add(e.AsList().Elements()...)
		case celast.StructKind:
			for _, field := range e.AsStruct().Fields() {
				if f := field.AsStructField(); !f.IsOptional() {
					add(f.Value())
				}
			}
		case celast.ComprehensionKind:
			add(e.AsComprehension().IterRange())
		case celast.CallKind:
			call := e.AsCall()
			switch call.FunctionName() {
			case celoperators.LogicalAnd, celoperators.LogicalOr:
				addTo(&alternatives, call.Args()...)
				return nil
			case celoperators.NotStrictlyFalse:
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
	return operands, alternatives
}

// objectsOf returns the values and what isn't known of them, for an expression. Of an object only its kind is known, and
// which fields its metadata lacks. Nothing is known if the expression doesn't only read fields of it.
func (p *Partial) objectsOf(ast *cel.Ast) (map[string]any, []*cel.AttributePatternType) {
	values, patterns := maps.Clone(p.values), slices.Clone(p.patterns)
	for _, name := range p.objects {
		fields, all := fieldsOf(ast.NativeRep().Expr(), name)
		if !all {
			patterns = append(patterns, cel.AttributePattern(name))
			continue
		}
		object := map[string]any{}
		values[name] = object
		if apiVersion, kind := p.kind.ToAPIVersionAndKind(); !p.kind.Empty() {
			object["apiVersion"], object["kind"] = apiVersion, kind
		}
		for _, field := range fields {
			if _, known := object[field]; known {
				continue
			}
			below, all := fieldsOf(ast.NativeRep().Expr(), name, field)
			if name != objectVariable || field != "metadata" || !all || len(p.lacks) == 0 {
				patterns = append(patterns, cel.AttributePattern(name).QualString(field))
				continue
			}
			object[field] = map[string]any{}
			for _, part := range below {
				if !slices.Contains(p.lacks, part) {
					patterns = append(patterns, cel.AttributePattern(name).QualString(field).QualString(part))
				}
			}
		}
	}
	return values, patterns
}

// fieldsOf returns the fields that an expression reads of a variable, or of a field of it that a path leads to. all
// reports whether it reads nothing else of it.
func fieldsOf(e celast.Expr, path ...string) (fields []string, all bool) {
	isRead := func(e celast.Expr) bool {
		names, ok := pathOf(e)
		return ok && names == strings.Join(path, ".")
	}
	others := 0
	celast.PostOrderVisit(e, celast.NewExprVisitor(func(e celast.Expr) {
		switch {
		case isRead(e) && !(e.Kind() == celast.SelectKind && e.AsSelect().IsTestOnly()):
			others++
		case e.Kind() == celast.SelectKind && isRead(e.AsSelect().Operand()):
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
