// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// A Kind says what an expression is for, and so what it may evaluate to and read.
type Kind struct {
	// resultTypes are the types that the expression may evaluate to. If empty, it may be any.
	resultTypes []*cel.Type
	// withoutAuthorizer reports that authorizer isn't declared.
	withoutAuthorizer bool
	// withPatches reports that Object, JSONPatch and the functions that make them are declared.
	withPatches bool
}

// The kinds of expressions.
var (
	// Condition is a match condition or a validation.
	Condition = &Kind{resultTypes: []*cel.Type{cel.BoolType}}
	// Message is a messageExpression.
	Message = &Kind{resultTypes: []*cel.Type{cel.StringType}, withoutAuthorizer: true}
	// AuditAnnotation is the valueExpression of an auditAnnotation.
	AuditAnnotation = &Kind{resultTypes: []*cel.Type{cel.StringType, cel.NullType}}
	// ApplyConfiguration and JSONPatch are the two types of mutations.
	ApplyConfiguration = &Kind{resultTypes: []*cel.Type{cel.ObjectType("Object")}, withPatches: true}
	JSONPatch          = &Kind{resultTypes: []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}, withPatches: true}
	// Variable is a policy's variable, which may evaluate to anything.
	Variable = &Kind{}
)

// program is one expression, compiled at its first use. Apart from the result of that it never
// changes.
type program struct {
	text         string
	kind         *Kind
	declarations declarations
	// scope is the policy whose variables the expression may read: the first visibleCount of them.
	// It is nil if the expression mentions none.
	scope        *Composition
	visibleCount int

	once       sync.Once
	cel        cel.Program
	err        error
	outputType *cel.Type
	deps       dependencies
}

// compileOnce returns the compiled expression or, if it doesn't compile, the error.
func (p *program) compileOnce() (cel.Program, error) {
	p.once.Do(func() {
		p.cel, p.err = p.compile()
	})
	return p.cel, p.err
}

// compile checks and plans the expression.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go#CompileCELExpression 0d9032e0
func (p *program) compile() (compiled cel.Program, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			compiled, err = nil, fmt.Errorf("compilation failed: internal error: %v", cause)
		}
	}()
	fields := p.variableFields()
	err = withChecker(p.declarations, func(c *checker) error {
		c.variables.Fields = fields
		ast, issues := c.env.Compile(p.text)
		if issues != nil {
			return errors.New("compilation failed: " + issues.String())
		}
		if err := p.kind.checkType(ast.OutputType()); err != nil {
			return err
		}
		p.outputType = ast.OutputType()
		p.deps = p.findDependencies(ast.NativeRep())
		compiled, err = c.plan(ast)
		if err != nil {
			return fmt.Errorf("program instantiation failed: %w", err)
		}
		return nil
	})
	return compiled, err
}

// checkType returns an error unless an expression of the kind may evaluate to the type.
func (k *Kind) checkType(t *cel.Type) error {
	for _, result := range k.resultTypes {
		if t.IsExactType(result) {
			return nil
		}
	}
	switch len(k.resultTypes) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("must evaluate to %v but got %v", k.resultTypes[0], t)
	}
	return fmt.Errorf("must evaluate to one of %v but got %v", k.resultTypes, t)
}

// variableFields returns the variables that the expression may read, as the fields of an object.
func (p *program) variableFields() map[string]*apiservercel.DeclField {
	if p.scope == nil {
		return noFields
	}
	fields := make(map[string]*apiservercel.DeclField, p.visibleCount)
	for _, v := range p.scope.variables[:p.visibleCount] {
		_, _ = v.program.compileOnce() // an error of the expressions that read it
		fields[v.name] = apiservercel.NewDeclField(v.name, declType(v.program.outputType), true, nil, nil)
	}
	return fields
}

// outcome is the result of an evaluation.
type outcome struct {
	value ref.Val
	// cost is in CEL's units. It doesn't include the cost of the variables that were read. An error
	// has a cost too.
	cost uint64
	err  error
	// cause is err without the text of the expression.
	cause error
	// variables are the policy's variables that were read.
	variables []variableRead
	elapsed   time.Duration
}

type variableRead struct {
	program *program
	outcome *outcome
}

// evaluate evaluates the expression.
//
// Source of the messages: Evaluate in k8s.io/apiserver/pkg/admission/plugin/cel/activation.go.
func (p *program) evaluate(ctx context.Context, r *Run) *outcome {
	if err := ctx.Err(); err != nil {
		return &outcome{cause: err, err: fmt.Errorf("expression '%s' was not evaluated: %w", p.text, err)}
	}
	compiled, err := p.compileOnce()
	if err != nil {
		return &outcome{cause: err, err: fmt.Errorf("compilation error: %w", err)}
	}
	f := frame{run: r, program: p}
	o := &f.outcome
	start := time.Now()
	value, details, err := compiled.ContextEval(ctx, &f)
	o.elapsed = time.Since(start)
	// If the cost of an evaluation is unknown, it counts as more than any budget.
	o.value, o.cost = value, math.MaxUint64
	if cost := details.ActualCost(); cost != nil {
		o.cost = *cost + f.meter.cost()
	}
	if err == nil && o.cost > celconfig.PerCallLimit {
		err = errExceeded
	}
	// A call that was refused before it allocated its result costs what the result would have cost.
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		o.cost = max(o.cost, celconfig.PerCallLimit)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	if err != nil {
		o.value = nil
		o.cause, o.err = err, fmt.Errorf("expression '%s' resulted in error: %w", p.text, err)
	}
	return o
}
