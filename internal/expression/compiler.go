// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"runtime"
	"sync"
	"weak"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// A Compiler compiles expressions. Expressions with the same text and the same declarations share a
// program for as long as one of them is in use. It is safe for concurrent use.
type Compiler struct {
	mu sync.Mutex
	// programs holds the programs in use. The pointers are weak: a program is dropped when the last
	// configuration that uses it is.
	programs map[programKey]weak.Pointer[program]
}

// programKey is everything that a program depends on.
type programKey struct {
	text         string
	kind         *Kind
	declarations declarations
	// scope identifies the variables that the expression may read, and scopeParams reports whether
	// they may read params. Both are set only for an expression that mentions variables.
	scope       string
	scopeParams bool
}

// NewCompiler returns an empty Compiler.
func NewCompiler() *Compiler {
	return &Compiler{programs: map[programKey]weak.Pointer[program]{}}
}

// Compile returns the match conditions of one webhook, nil for none. It doesn't fail. As upstream,
// an expression that doesn't compile is an error when it is evaluated, since it may have been
// stored by a newer server. Check reports the error beforehand.
func (c *Compiler) Compile(conditions []admissionregistrationv1.MatchCondition) *Conditions {
	if len(conditions) == 0 {
		return nil
	}
	compiled := &Conditions{namesConditions: true, conditions: make([]condition, len(conditions))}
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
	_, err := c.condition(expression).compileOnce()
	return err
}

// Expression returns an expression without variables: a match condition, as the API checks it, or
// an expression of a policy that has no variables. params reports whether params is declared.
func (c *Compiler) Expression(text string, kind *Kind, params bool) *Expression {
	return &Expression{c.program(programKey{text: text, kind: kind,
		declarations: declarations{params: params, authorizer: !kind.withoutAuthorizer, patches: kind.withPatches}}, nil)}
}

// condition returns the program of a webhook's match condition.
func (c *Compiler) condition(expression string) *program {
	return c.program(programKey{text: expression, kind: Condition, declarations: declarations{authorizer: true}}, nil)
}

// program returns the program for a key, and makes it if there is none. composition may be nil if
// the expression mentions no variables.
func (c *Compiler) program(key programKey, composition *Composition) *program {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.programs[key].Value(); p != nil {
		return p
	}
	p := &program{text: key.text, kind: key.kind, declarations: key.declarations}
	if key.declarations.variables {
		p.scope, p.visibleCount = composition, len(composition.variables)
	}
	c.programs[key] = weak.Make(p)
	runtime.AddCleanup(p, c.forget, key)
	return p
}

// forget drops the key of a program that is no longer in use, unless a new program has taken it.
func (c *Compiler) forget(key programKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs[key].Value() == nil {
		delete(c.programs, key)
	}
}
