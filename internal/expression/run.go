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

// Inputs are what the expressions of one run see besides the request.
type Inputs struct {
	// Params are what params is; nil is null.
	Params *Params
	// Namespace is what namespaceObject is, that of the request; nil is null.
	Namespace *corev1.Namespace
	// Authorizer says that authorizer is there.
	Authorizer bool
}

// A Run evaluates expressions of one policy, in order, against one budget. A variable is evaluated
// when one of them first reads it, and charged to that one. It belongs to one goroutine.
//
// Source: ForInput in k8s.io/apiserver/pkg/admission/plugin/cel/condition.go.
type Run struct {
	of     *Variables
	in     Inputs
	budget uint64
	// charged are the variables that have been read.
	charged []*program
}

// A Result is what an expression came to.
type Result struct {
	// Value is of one of the types of the expression's kind; nil where there is an error.
	Value ref.Val
	// Err is why the expression could not be evaluated. Its text is upstream's.
	Err error
	// Elapsed is how long it took, when it was evaluated.
	Elapsed time.Duration
}

// Run begins to evaluate with RuntimeCELCostBudget (k8s.io/apiserver/pkg/apis/cel), which is about
// a second, or with what another run has left of it.
func (v *Variables) Run(in Inputs) *Run { return v.run(in, celconfig.RuntimeCELCostBudget) }

// Next begins a run with what this one has left of its budget. Variables are evaluated, and
// charged, anew.
func (r *Run) Next(in Inputs) *Run { return r.of.run(in, r.budget) }

func (v *Variables) run(in Inputs, budget uint64) *Run { return &Run{of: v, in: in, budget: budget} }

// OutOfBudget is the error of Evaluate where the budget doesn't suffice. It is an ErrOutOfBudget of
// k8s.io/apiserver/pkg/cel.
var OutOfBudget error = &apiservercel.Error{
	Type:   apiservercel.ErrorTypeInvalid,
	Detail: "validation failed due to running out of cost budget, no further validation rules will be run",
	Cause:  apiservercel.ErrOutOfBudget,
}

// Evaluate evaluates an expression. What it and the variables cost that it is the first of the run
// to read is taken from the budget, whether they had to be evaluated or are remembered. Where that
// doesn't suffice the error is OutOfBudget, and the run is over.
func (r *Run) Evaluate(ctx context.Context, e *Expression) (Result, error) {
	return r.evaluate(ctx, e.program)
}

func (r *Run) evaluate(ctx context.Context, p *program) (Result, error) {
	o := r.outcome(ctx, p)
	if !r.spend(r.charge(o)) || !r.spend(o.cost) {
		return Result{}, OutOfBudget
	}
	return Result{Value: o.value, Err: o.err, Elapsed: o.elapsed}, nil
}

func (r *Run) spend(cost uint64) bool {
	if cost > r.budget {
		return false
	}
	r.budget -= cost
	return true
}

// charge returns what the variables cost that have been read for the outcome and for none before.
func (r *Run) charge(o *outcome) (cost uint64) {
	for _, read := range o.variables {
		if slices.Contains(r.charged, read.program) {
			continue
		}
		r.charged = append(r.charged, read.program)
		cost = sum(cost, sum(read.outcome.cost, r.charge(read.outcome)))
	}
	return cost
}

// sum doesn't overflow.
func sum(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// remembered is an evaluation, with all that it depends on in one request.
type remembered struct {
	program    *program
	params     *Params
	authorizer bool
	namespace  bool
}

// outcome evaluates an expression, or returns what it came to before.
func (r *Run) outcome(ctx context.Context, p *program) *outcome {
	reads := p.reading()
	key := remembered{program: p, authorizer: reads.authorizer && r.in.Authorizer,
		namespace: reads.namespace && r.in.Namespace != nil}
	if reads.params {
		key.params = r.in.Params
	}
	if o, ok := r.of.outcomes[key]; ok {
		return o
	}
	before := r.of.ctx
	r.of.ctx = ctx
	o := p.evaluate(ctx, r)
	r.of.ctx = before
	// What ended with its context may come to something in another.
	if ctx.Err() == nil {
		if r.of.outcomes == nil {
			r.of.outcomes = map[remembered]*outcome{}
		}
		r.of.outcomes[key] = o
	}
	return o
}

// frame is one evaluation going on: what CEL asks for the values of names.
type frame struct {
	run     *Run
	program *program
	outcome outcome
	meter   meter
	// variables is what the name means in it.
	variables *variablesValue
}

// ResolveName is for CEL to call.
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
	return f.run.of.resolve(name, &f.run.in)
}

// Parent returns nil: there are no names besides these.
func (f *frame) Parent() interpreter.Activation { return nil }

// variable evaluates the variable. Its error is that of who reads it.
//
// Source: Callback in k8s.io/apiserver/pkg/admission/plugin/cel/composition.go.
func (f *frame) variable(v *variableOf) ref.Val {
	if _, err := v.program.compiled(); err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", v.name, err)
	}
	o := f.run.outcome(f.run.of.ctx, v.program)
	f.outcome.variables = append(f.outcome.variables, variableRead{v.program, o})
	if o.cause != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", v.name, o.cause)
	}
	return o.value
}
