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

// A Kind is what an expression is for: what it may come to and read.
type Kind struct {
	// results are the types of which it must be one; none is any.
	results []*cel.Type
	// withoutAuthorizer says that authorizer isn't declared.
	withoutAuthorizer bool
	// patches says that Object, JSONPatch and the functions that make them are declared.
	patches bool
}

// The kinds of expressions.
var (
	// Condition is a match condition or a validation.
	Condition = &Kind{results: []*cel.Type{cel.BoolType}}
	// Message is a messageExpression.
	Message = &Kind{results: []*cel.Type{cel.StringType}, withoutAuthorizer: true}
	// AuditAnnotation is the valueExpression of an auditAnnotation.
	AuditAnnotation = &Kind{results: []*cel.Type{cel.StringType, cel.NullType}}
	// ApplyConfiguration and JSONPatch are the two types of mutations.
	ApplyConfiguration = &Kind{results: []*cel.Type{cel.ObjectType("Object")}, patches: true}
	JSONPatch          = &Kind{results: []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}, patches: true}
	// Variable is a variable, which may come to anything.
	Variable = &Kind{}
)

// program is one expression, compiled at its first use. But for its result it never changes.
type program struct {
	text     string
	kind     *Kind
	declared declared
	// scope has the variables that the expression may read: the first visible ones of it. Nil where
	// it doesn't read any.
	scope   *Composition
	visible int

	once  sync.Once
	cel   cel.Program
	err   error
	of    *cel.Type
	reads reads
}

// compiled returns what to evaluate, or why the expression doesn't compile.
func (p *program) compiled() (cel.Program, error) {
	p.once.Do(func() {
		p.cel, p.err = p.compile()
	})
	return p.cel, p.err
}

// compile checks the expression and plans how to evaluate it.
//
// Source: CompileCELExpression in k8s.io/apiserver/pkg/admission/plugin/cel/compile.go.
func (p *program) compile() (compiled cel.Program, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			compiled, err = nil, fmt.Errorf("compilation failed: internal error: %v", cause)
		}
	}()
	fields := p.fields()
	err = check(p.declared, func(c *checker) error {
		c.variables.Fields = fields
		ast, issues := c.env.Compile(p.text)
		if issues != nil {
			return errors.New("compilation failed: " + issues.String())
		}
		if err := p.kind.accepts(ast.OutputType()); err != nil {
			return err
		}
		p.of = ast.OutputType()
		p.reads = p.readsOf(ast.NativeRep())
		compiled, err = c.plan(ast)
		if err != nil {
			return fmt.Errorf("program instantiation failed: %w", err)
		}
		return nil
	})
	return compiled, err
}

func (k *Kind) accepts(t *cel.Type) error {
	for _, result := range k.results {
		if t.IsExactType(result) {
			return nil
		}
	}
	switch len(k.results) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("must evaluate to %v but got %v", k.results[0], t)
	}
	return fmt.Errorf("must evaluate to one of %v but got %v", k.results, t)
}

// fields are the variables that the expression may read, as the fields of an object.
func (p *program) fields() map[string]*apiservercel.DeclField {
	if p.scope == nil {
		return noFields
	}
	fields := make(map[string]*apiservercel.DeclField, p.visible)
	for _, v := range p.scope.variables[:p.visible] {
		_, _ = v.program.compiled() // one that doesn't compile is an error of who reads it
		fields[v.name] = apiservercel.NewDeclField(v.name, declType(v.program.of), true, nil, nil)
	}
	return fields
}

// outcome is what an evaluation came to.
type outcome struct {
	value ref.Val
	// cost is in CEL's units, and doesn't count what the variables cost that were read. An error
	// costs too.
	cost uint64
	err  error
	// cause is err without the expression.
	cause error
	// variables are those that were read.
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
	compiled, err := p.compiled()
	if err != nil {
		return &outcome{cause: err, err: fmt.Errorf("compilation error: %w", err)}
	}
	f := frame{run: r, program: p}
	o := &f.outcome
	start := time.Now()
	value, details, err := compiled.ContextEval(ctx, &f)
	o.elapsed = time.Since(start)
	// What an evaluation cost that can't tell is more than any budget.
	o.value, o.cost = value, math.MaxUint64
	if cost := details.ActualCost(); cost != nil {
		o.cost = *cost + f.meter.cost()
	}
	if err == nil && o.cost > celconfig.PerCallLimit {
		err = errExceeded
	}
	// A call that was refused before it allocated its result costs what the result would have.
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		o.cost = max(o.cost, celconfig.PerCallLimit)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	if err != nil {
		o.value = nil
		o.cause, o.err = err, fmt.Errorf("expression '%s' resulted in error: %w", p.text, err)
	}
	return o
}
