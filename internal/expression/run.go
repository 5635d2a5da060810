// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	corev1 "k8s.io/api/core/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Inputs holds what the expressions of one run read in addition to the request.
type Inputs struct {
	// Params is the value of params; nil is null.
	Params *Params
	// Namespace is the value of namespaceObject, the request's namespace; nil is null.
	Namespace *corev1.Namespace
	// Authorizer reports whether authorizer can be read.
	Authorizer bool
}

// A Run evaluates expressions of one policy, in order, with one budget. A variable is evaluated
// when one of them first reads it, and charged to that one. It is for one goroutine.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/condition.go#ForInput 0797c2a9
type Run struct {
	variables *Variables
	inputs    Inputs
	budget    uint64
	// charged are the variables that have been charged.
	charged []*program
}

// A Result is the result of an expression.
type Result struct {
	// Value has one of the types of the expression's kind. It is nil if there is an error.
	Value ref.Val
	// Err is why the expression could not be evaluated. Its text is upstream's.
	Err error
	// Elapsed is how long the evaluation took.
	Elapsed time.Duration
}

// Run returns a run with the budget RuntimeCELCostBudget (k8s.io/apiserver/pkg/apis/cel), which is
// about a second.
func (v *Variables) Run(in Inputs) *Run { return v.run(in, celconfig.RuntimeCELCostBudget) }

// Continue returns a run with what this one has left of its budget. Variables are evaluated and
// charged again.
func (r *Run) Continue(in Inputs) *Run { return r.variables.run(in, r.budget) }

func (v *Variables) run(in Inputs, budget uint64) *Run {
	return &Run{variables: v, inputs: in, budget: budget}
}

// ErrOutOfBudget is the error of Evaluate if the budget is used up. It is an ErrOutOfBudget of
// k8s.io/apiserver/pkg/cel.
var ErrOutOfBudget error = &apiservercel.Error{
	Type:   apiservercel.ErrorTypeInvalid,
	Detail: "validation failed due to running out of cost budget, no further validation rules will be run",
	Cause:  apiservercel.ErrOutOfBudget,
}

// Evaluate evaluates an expression. The budget is charged with the cost of the expression and of
// the variables that it is the first in the run to read, whether they were evaluated or reused. If
// the budget doesn't suffice, the error is ErrOutOfBudget, and the run must not be used further.
func (r *Run) Evaluate(ctx context.Context, e *Expression) (Result, error) {
	return r.evaluate(ctx, e.program)
}

func (r *Run) evaluate(ctx context.Context, p *program) (Result, error) {
	o := r.outcome(ctx, p)
	if !r.spend(r.charge(o)) || !r.spend(o.cost) {
		return Result{}, ErrOutOfBudget
	}
	return Result{Value: o.value, Err: o.err, Elapsed: o.elapsed}, nil
}

// spend takes a cost from the budget, and reports whether it sufficed.
func (r *Run) spend(cost uint64) bool {
	if cost > r.budget {
		return false
	}
	r.budget -= cost
	return true
}

// charge returns the cost of the variables that were read for the outcome and haven't been charged
// yet.
func (r *Run) charge(o *outcome) (cost uint64) {
	for _, read := range o.variables {
		if slices.Contains(r.charged, read.program) {
			continue
		}
		r.charged = append(r.charged, read.program)
		cost = addSaturating(cost, addSaturating(read.outcome.cost, r.charge(read.outcome)))
	}
	return cost
}

// addSaturating returns the sum, or the largest number if the sum overflows.
func addSaturating(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// outcomeKey is an evaluation with everything that it depends on within a request.
type outcomeKey struct {
	program    *program
	params     *Params
	authorizer bool
	namespace  bool
}

// outcome evaluates an expression, or returns the outcome of an equal evaluation.
func (r *Run) outcome(ctx context.Context, p *program) *outcome {
	reads := p.dependencies()
	key := outcomeKey{program: p, authorizer: reads.authorizer && r.inputs.Authorizer,
		namespace: reads.namespace && r.inputs.Namespace != nil}
	if reads.params {
		key.params = r.inputs.Params
	}
	if o, ok := r.variables.outcomes[key]; ok {
		return o
	}
	before := r.variables.ctx
	r.variables.ctx = ctx
	o := p.evaluate(ctx, r)
	r.variables.ctx = before
	// An evaluation that ended with its context may succeed in another.
	if ctx.Err() == nil {
		if r.variables.outcomes == nil {
			r.variables.outcomes = map[outcomeKey]*outcome{}
		}
		r.variables.outcomes[key] = o
	}
	return o
}

// frame is an evaluation in progress. CEL asks it for the values of names.
type frame struct {
	run     *Run
	program *program
	outcome outcome
	meter   meter
	// variables is the value of the name variables.
	variables *variablesValue
}

// ResolveName implements interpreter.Activation.
func (f *frame) ResolveName(name string) (any, bool) {
	if name == variablesVariable && f.program.scope != nil {
		if f.variables == nil {
			f.variables = &variablesValue{frame: f}
		}
		return f.variables, true
	}
	if name == meterName {
		return &f.meter, true
	}
	return f.run.variables.resolve(name, &f.run.inputs)
}

// Parent implements interpreter.Activation. There are no other names.
func (f *frame) Parent() interpreter.Activation { return nil }

// evaluateVariable evaluates a policy's variable. An error is one of the expression that reads it.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/composition.go#Callback f3a1bd40
func (f *frame) evaluateVariable(v *composedVariable) ref.Val {
	if _, err := v.program.compileOnce(); err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", v.name, err)
	}
	o := f.run.outcome(f.run.variables.ctx, v.program)
	f.outcome.variables = append(f.outcome.variables, variableRead{v.program, o})
	if o.cause != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", v.name, o.cause)
	}
	return o.value
}
