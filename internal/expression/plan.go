// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// plan returns the program of a checked expression.
//
// A program keeps a table of all functions of its environment, which takes 50 kB. So an expression
// is planned in an environment that has only the functions it calls, with the options of the
// environment in which it was checked. If it calls a function of a library whose options can't be
// separated from the library, it is planned in that full environment.
func (c *checker) plan(ast *cel.Ast) (cel.Program, error) {
	small, err := c.smallEnvironment(ast.NativeRep())
	if err != nil {
		return nil, err
	}
	if small == nil {
		return c.env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency), cel.CostTracking(&costEstimator{}),
			cel.CustomDecoratorV2(c.boundNode))
	}
	return small.Program(ast, append(programOptions[:len(programOptions):len(programOptions)],
		cel.CustomDecoratorV2(c.boundNode))...)
}

// programOptions are the options of an environment's programs.
//
// The libraries have program options of their own.
//
// Source: k8s.io/apiserver/pkg/cel/environment/base.go#baseOpts 6ce339c1
var programOptions = []cel.ProgramOption{
	cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
	cel.CostLimit(celconfig.PerCallLimit),
	cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
	cel.CostTracking(&costEstimator{}),
	cel.OptimizeRegex(library.FindRegexOptimization, library.FindAllRegexOptimization),
	cel.InterruptCheckFrequency(celconfig.CheckFrequency),
}

// libraries holds the functions of libraries with ProgramOptions of their own.
type libraries struct {
	// inseparable holds the functions of libraries whose options can't be had without the whole
	// library.
	inseparable map[string]*decls.FunctionDecl
	// optional holds the functions of the library with or and orValue.
	optional map[string]*decls.FunctionDecl
}

var knownLibraries = sync.OnceValues(func() (libraries, error) {
	inseparable, err := cel.NewCustomEnv(ext.Sets(), ext.Lists(ext.ListsVersion(3)))
	if err != nil {
		return libraries{}, err
	}
	optional, err := cel.NewCustomEnv(cel.OptionalTypes())
	if err != nil {
		return libraries{}, err
	}
	return libraries{inseparable.Functions(), optional.Functions()}, nil
})

// smallEnvironment returns an environment with only the functions that are called. It returns nil
// if there can't be one.
func (c *checker) smallEnvironment(ast *celast.AST) (*cel.Env, error) {
	known, err := knownLibraries()
	if err != nil {
		return nil, err
	}
	called := map[string]bool{}
	celast.PostOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.CallKind {
			called[e.AsCall().FunctionName()] = true
		}
	}))
	var options []cel.EnvOption
	optionals := called["or"] || called["orValue"]
	if optionals {
		options = append(options, cel.OptionalTypes())
	}
	// These replace the types that come with the library.
	options = append(options, cel.CustomTypeProvider(c.env.CELTypeProvider()),
		cel.CustomTypeAdapter(c.env.CELTypeAdapter()))
	for name := range called {
		if known.inseparable[name] != nil {
			return nil, nil
		}
		if optionals && known.optional[name] != nil {
			continue
		}
		if f := c.functions[name]; f != nil {
			options = append(options, cel.FunctionDecls(f))
		}
	}
	return cel.NewCustomEnv(options...)
}
