package expression

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"weak"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// A Compiler turns match conditions into what can be evaluated. Expressions that read alike are
// compiled once, for as long as some Conditions hold them. It may be used concurrently.
type Compiler struct {
	mu sync.Mutex
	// programs are the expressions in use, by their text. The pointers are weak: the configurations
	// in force bound what is kept, and nothing has to be dropped that still is of use.
	programs map[string]weak.Pointer[program]
}

// NewCompiler returns a Compiler that knows no expressions yet.
func NewCompiler() *Compiler {
	return &Compiler{programs: map[string]weak.Pointer[program]{}}
}

// Compile returns the conditions of one webhook, nil for none. It doesn't fail: an expression that
// doesn't compile is an error when it is evaluated, as upstream, since it may have been stored by a
// server that knew more. Check tells beforehand.
func (c *Compiler) Compile(conditions []admissionregistrationv1.MatchCondition) *Conditions {
	if len(conditions) == 0 {
		return nil
	}
	compiled := &Conditions{conditions: make([]condition, len(conditions))}
	for i, stated := range conditions {
		compiled.conditions[i] = condition{name: stated.Name, program: c.program(stated.Expression)}
	}
	return compiled
}

// Check compiles the expression of a match condition. The error is, word for word, the detail of
// the field.Invalid with which Kubernetes refuses a configuration:
//
//	compilation failed: ERROR: <input>:1:1: undeclared reference to 'pod' (in container '')
//	must evaluate to bool but got string
func (c *Compiler) Check(expression string) error {
	_, err := c.program(expression).compiled()
	return err
}

func (c *Compiler) program(expression string) *program {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.programs[expression].Value(); p != nil {
		return p
	}
	p := &program{expression: expression}
	c.programs[expression] = weak.Make(p)
	runtime.AddCleanup(p, c.forget, expression)
	return p
}

// forget drops an expression that nobody holds any more, unless somebody has asked for it again
// since.
func (c *Compiler) forget(expression string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs[expression].Value() == nil {
		delete(c.programs, expression)
	}
}

// program is one expression, compiled at its first use.
type program struct {
	expression string

	once sync.Once
	cel  cel.Program
	err  error
}

// compiled returns what to evaluate, or why the expression doesn't compile.
//
// Source: CompileCELExpression in k8s.io/apiserver/pkg/admission/plugin/cel/compile.go.
func (p *program) compiled() (cel.Program, error) {
	p.once.Do(func() { p.cel, p.err = compile(p.expression) })
	return p.cel, p.err
}

func compile(expression string) (cel.Program, error) {
	env, err := celEnvironment()
	if err != nil {
		return nil, fmt.Errorf("unexpected error loading CEL environment: %w", err)
	}
	ast, issues := env.Compile(expression)
	if issues != nil {
		return nil, errors.New("compilation failed: " + issues.String())
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("must evaluate to %v but got %v", cel.BoolType, ast.OutputType())
	}
	p, err := env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	return p, nil
}

// outcome is what an evaluation came to.
type outcome struct {
	value ref.Val
	// cost is in CEL's units. An error costs too.
	cost uint64
	err  error
}

// evaluate evaluates the expression.
//
// Source of the messages: Evaluate in k8s.io/apiserver/pkg/admission/plugin/cel/activation.go.
func (p *program) evaluate(ctx context.Context, v *Variables) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("expression '%s' was not evaluated: %w", p.expression, err)}
	}
	compiled, err := p.compiled()
	if err != nil {
		return outcome{err: fmt.Errorf("compilation error: %w", err)}
	}
	value, details, err := compiled.ContextEval(ctx, v)
	// What an evaluation cost that can't tell is more than any budget.
	o := outcome{value: value, cost: math.MaxUint64}
	if cost := details.ActualCost(); cost != nil {
		o.cost = *cost
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	if err != nil {
		o.err = fmt.Errorf("expression '%s' resulted in error: %w", p.expression, err)
	}
	return o
}
