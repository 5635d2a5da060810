package expression

import (
	"runtime"
	"sync"
	"weak"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// A Compiler turns expressions into what can be evaluated. Expressions that read alike, in
// environments that are alike, are compiled once, for as long as somebody holds them. It may be
// used concurrently.
type Compiler struct {
	mu sync.Mutex
	// programs are the expressions in use. The pointers are weak: the configurations in force bound
	// what is kept, and nothing has to be dropped that still is of use.
	programs map[programKey]weak.Pointer[program]
}

// programKey is all that a program depends on.
type programKey struct {
	text     string
	kind     *Kind
	declared declared
	// scope tells which variables there are, and scopeParams whether they may read params; for
	// those that mention them.
	scope       string
	scopeParams bool
}

// NewCompiler returns a Compiler that knows no expressions yet.
func NewCompiler() *Compiler {
	return &Compiler{programs: map[programKey]weak.Pointer[program]{}}
}

// Compile returns the conditions of one webhook, nil for none. It doesn't fail: an expression that
// doesn't compile is an error when it is evaluated, as upstream, since it may have been stored by a
// server that knew more. Check tells beforehand.
func (c *Compiler) Compile(conditions []admissionregistrationv1.MatchCondition) *Conditions {
	if len(conditions) == 0 {
		return nil
	}
	compiled := &Conditions{named: true, conditions: make([]condition, len(conditions))}
	for i, stated := range conditions {
		compiled.conditions[i] = condition{name: stated.Name, program: c.condition(stated.Expression)}
	}
	return compiled
}

// Check compiles the expression of a match condition. The error is, word for word, the detail of
// the field.Invalid with which Kubernetes refuses a configuration:
//
//	compilation failed: ERROR: <input>:1:1: undeclared reference to 'pod' (in container '')
//	must evaluate to bool but got string
func (c *Compiler) Check(expression string) error {
	_, err := c.condition(expression).compiled()
	return err
}

// Expression returns an expression that knows no variables, not even that a policy could have some:
// a match condition, as the API checks it, or one of a policy without variables. params says that
// params is declared.
func (c *Compiler) Expression(text string, kind *Kind, params bool) *Expression {
	return &Expression{c.program(programKey{text: text, kind: kind,
		declared: declared{params: params, authorizer: !kind.withoutAuthorizer, patches: kind.patches}}, nil)}
}

func (c *Compiler) condition(expression string) *program {
	return c.program(programKey{text: expression, kind: Condition, declared: declared{authorizer: true}}, nil)
}

// program returns the program of an expression of the policy that composition is of, which may be
// nil where the expression mentions no variables.
func (c *Compiler) program(key programKey, composition *Composition) *program {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.programs[key].Value(); p != nil {
		return p
	}
	p := &program{text: key.text, kind: key.kind, declared: key.declared}
	if key.declared.variables {
		p.scope, p.visible = composition, len(composition.variables)
	}
	c.programs[key] = weak.Make(p)
	runtime.AddCleanup(p, c.forget, key)
	return p
}

// forget drops an expression that nobody holds any more, unless somebody has asked for it again
// since.
func (c *Compiler) forget(key programKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs[key].Value() == nil {
		delete(c.programs, key)
	}
}
