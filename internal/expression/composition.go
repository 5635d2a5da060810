// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// A Composition holds what the expressions of one policy share: its variables, and whether it has
// params. It is safe for concurrent use.
type Composition struct {
	compiler  *Compiler
	params    bool
	variables []composedVariable
}

// composedVariable is a variable of a policy. Only expressions after it may read it.
type composedVariable struct {
	name    string
	program *program
	// key identifies the variable together with all variables before it.
	key string
}

// Compose returns the Composition of a policy. Like Compile it doesn't fail. A variable is compiled
// with the first expression that reads it, and if it doesn't compile, that is an error of the
// expression.
//
// params reports whether the policy has a paramKind. Without one, params isn't declared.
func (c *Compiler) Compose(variables []admissionregistrationv1.Variable, params bool) *Composition {
	composition := &Composition{compiler: c, params: params}
	for _, v := range variables {
		p := composition.program(v.Expression, Variable)
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", composition.key(), v.Name, v.Expression))
		composition.variables = append(composition.variables, composedVariable{v.Name, p, string(sum[:])})
	}
	return composition
}

// An Expression is an expression of a policy. It may be evaluated concurrently.
type Expression struct{ program *program }

// Expression returns an expression of the policy. It is compiled when it is first evaluated or when
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
	_, err := e.program.compileOnce()
	return err
}

// ReadsParams reports whether the expression, or a variable that it reads, reads params. If not,
// its result is the same for all params. It compiles the expression.
func (e *Expression) ReadsParams() bool { return e.program.dependencies().params }

// program returns the program of an expression. What the text doesn't mention isn't part of its
// key, so that policies with other variables can share it.
func (c *Composition) program(text string, kind *Kind) *program {
	k := programKey{text: text, kind: kind, declarations: declarations{
		params:     c.params && strings.Contains(text, paramsVariable),
		authorizer: !kind.withoutAuthorizer && strings.Contains(text, authorizerVariable),
		patches:    kind.withPatches,
		variables:  strings.Contains(text, variablesVariable),
	}}
	if k.declarations.variables {
		k.scope, k.scopeParams = c.key(), c.params
	}
	return c.compiler.program(k, c)
}

// key identifies the variables of the policy.
func (c *Composition) key() string {
	if len(c.variables) == 0 {
		return ""
	}
	return c.variables[len(c.variables)-1].key
}

// dependencies says which inputs an expression reads, directly or by a variable. An evaluation can
// be reused within a request if these are the same.
type dependencies struct{ object, params, authorizer, namespace bool }

// dependencies returns what the expression reads. It compiles the expression.
func (p *program) dependencies() dependencies {
	_, _ = p.compileOnce()
	return p.deps
}

// findDependencies looks at the names that the expression refers to. If the expression redefines a
// name, the result may contain more than is read.
func (p *program) findDependencies(ast *celast.AST) dependencies {
	var r dependencies
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
	for _, v := range p.scope.variables[:p.visibleCount] {
		// An expression that uses variables as a whole may read any of them.
		if mentioned != 0 || selected[v.name] {
			d := v.program.dependencies()
			r.object, r.params = r.object || d.object, r.params || d.params
			r.authorizer, r.namespace = r.authorizer || d.authorizer, r.namespace || d.namespace
		}
	}
	return r
}

// declType returns the type of a variable as the type of a field. A type that has no equivalent
// becomes dyn.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/composition.go#convertCelTypeToDeclType a4ab937e
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	if simple, ok := simpleTypes[t]; ok {
		return simple
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch parameters := t.Parameters(); len(parameters) {
		case 1:
			return apiservercel.NewListType(declType(parameters[0]), -1)
		case 2:
			return apiservercel.NewMapType(declType(parameters[0]), declType(parameters[1]), -1)
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
