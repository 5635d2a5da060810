package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Known is what is known about a request before it comes.
type Known struct {
	// Request are the known fields of request, as CEL reads them. resource and kind may have only some of theirs.
	Request map[string]any
	// NoObject and NoOldObject report that object or oldObject is null, NoNamespace that namespaceObject is.
	NoObject, NoOldObject, NoNamespace bool
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
}

// NewPartial returns a Partial for requests of which something is known.
func NewPartial(known Known) *Partial {
	p := &Partial{variables: map[string]any{}}
	p.values = map[string]any{requestVariable: known.Request, variablesVariable: p.variables}
	unknown := func(name string, isNull bool) {
		if isNull {
			p.values[name] = types.NullValue
		} else {
			p.patterns = append(p.patterns, cel.AttributePattern(name))
		}
	}
	unknown(objectVariable, known.NoObject)
	unknown(oldObjectVariable, known.NoOldObject)
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
		vars, err := cel.PartialVars(p.values, p.patterns...)
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
