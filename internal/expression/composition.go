package expression

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/traits"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// A Composition is what the expressions of one policy have in common: its variables, and whether it
// has params. It may be used concurrently.
type Composition struct {
	compiler  *Compiler
	params    bool
	variables []variableOf
}

// variableOf is a variable of a policy. An expression may read it that comes after it.
type variableOf struct {
	name    string
	program *program
	// key tells it, with all that come before it, from all others.
	key string
}

// Compose returns what a policy's expressions are compiled with. Like Compile it doesn't fail:
// variables are compiled when an expression that reads them is, and one that doesn't compile is an
// error of that.
//
// params says that the policy has a paramKind; without one params isn't declared.
func (c *Compiler) Compose(variables []admissionregistrationv1.Variable, params bool) *Composition {
	composition := &Composition{compiler: c, params: params}
	for _, v := range variables {
		p := composition.program(v.Expression, Variable)
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", composition.key(), v.Name, v.Expression))
		composition.variables = append(composition.variables, variableOf{v.Name, p, string(sum[:])})
	}
	return composition
}

// An Expression is one of a policy. It may be evaluated concurrently.
type Expression struct{ program *program }

// Expression returns an expression of the policy, compiled when it is first evaluated or when
// Prepare is called.
func (c *Composition) Expression(text string, kind *Kind) *Expression {
	return &Expression{c.program(text, kind)}
}

// Conditions returns the policy's match conditions, nil for none.
func (c *Composition) Conditions(stated []admissionregistrationv1.MatchCondition) *Conditions {
	if len(stated) == 0 {
		return nil
	}
	conditions := &Conditions{conditions: make([]condition, len(stated))}
	for i, s := range stated {
		conditions.conditions[i] = condition{name: s.Name, program: c.program(s.Expression, Condition)}
	}
	return conditions
}

// Prepare compiles the expression. The error is, word for word, the detail of the field.Invalid
// with which Kubernetes refuses a policy.
func (e *Expression) Prepare() error {
	_, err := e.program.compiled()
	return err
}

// ReadsParams tells whether the expression, or a variable that it reads, reads params: what doesn't
// comes to the same for all of them. It compiles the expression.
func (e *Expression) ReadsParams() bool { return e.program.reading().params }

// program returns the program of an expression. What the expression can't mention makes no
// difference, so that policies which have other variables have it in common.
func (c *Composition) program(text string, kind *Kind) *program {
	k := programKey{text: text, kind: kind, declared: declared{
		params:     c.params && strings.Contains(text, paramsVariable),
		authorizer: !kind.withoutAuthorizer && strings.Contains(text, authorizerVariable),
		patches:    kind.patches,
		variables:  strings.Contains(text, variablesVariable),
	}}
	if k.declared.variables {
		k.scope, k.scopeParams = c.key(), c.params
	}
	return c.compiler.program(k, c)
}

func (c *Composition) key() string {
	if len(c.variables) == 0 {
		return ""
	}
	return c.variables[len(c.variables)-1].key
}

// reads is what an expression, or a variable that it reads, reads of what may differ from one
// evaluation to another in a request.
type reads struct{ object, params, authorizer, namespace bool }

// reading compiles the expression to tell.
func (p *program) reading() reads {
	_, _ = p.compiled()
	return p.reads
}

// readsOf looks at the names that the expression refers to. It may say that one is read that isn't,
// where the expression gives another meaning to the name.
func (p *program) readsOf(ast *celast.AST) reads {
	var r reads
	for _, reference := range ast.ReferenceMap() {
		switch reference.Name {
		case objectVariable:
			r.object = true
		case paramsVariable:
			r.params = true
		case authorizerVariable, requestResourceVariable:
			r.authorizer = true
		case namespaceVariable:
			r.namespace = true
		}
	}
	if p.scope == nil {
		return r
	}
	mentioned, selected := 0, map[string]bool{}
	celast.PostOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch {
		case e.Kind() == celast.IdentKind && e.AsIdent() == variablesVariable:
			mentioned++
		case e.Kind() == celast.SelectKind && e.AsSelect().Operand().Kind() == celast.IdentKind &&
			e.AsSelect().Operand().AsIdent() == variablesVariable:
			if name, ok := apiservercel.Unescape(e.AsSelect().FieldName()); ok {
				mentioned--
				selected[name] = true
			}
		}
	}))
	for _, v := range p.scope.variables[:p.visible] {
		// Who gets hold of all of them may read any.
		if mentioned != 0 || selected[v.name] {
			of := v.program.reading()
			r.object, r.params = r.object || of.object, r.params || of.params
			r.authorizer, r.namespace = r.authorizer || of.authorizer, r.namespace || of.namespace
		}
	}
	return r
}

// declType returns the type of a variable as that of a field. What it can't express is anything.
//
// Source: convertCelTypeToDeclType in k8s.io/apiserver/pkg/admission/plugin/cel/composition.go.
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	if simple, ok := simpleTypes[t]; ok {
		return simple
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch of := t.Parameters(); len(of) {
		case 1:
			return apiservercel.NewListType(declType(of[0]), -1)
		case 2:
			return apiservercel.NewMapType(declType(of[0]), declType(of[1]), -1)
		}
	}
	return apiservercel.DynType
}

var simpleTypes = map[*cel.Type]*apiservercel.DeclType{
	cel.AnyType:       apiservercel.AnyType,
	cel.BoolType:      apiservercel.BoolType,
	cel.BytesType:     apiservercel.BytesType,
	cel.DoubleType:    apiservercel.DoubleType,
	cel.DurationType:  apiservercel.DurationType,
	cel.IntType:       apiservercel.IntType,
	cel.NullType:      apiservercel.NullType,
	cel.StringType:    apiservercel.StringType,
	cel.TimestampType: apiservercel.TimestampType,
	cel.UintType:      apiservercel.UintType,
}
