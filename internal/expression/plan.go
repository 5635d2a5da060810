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

// plan returns how to evaluate a checked expression.
//
// A program keeps a table of all functions of its environment, which is 50 kB. So it is planned in
// an environment that has only those it calls, with the options of the environment it was checked
// in. Where options of that belong to a function which is called and can't be had apart, it is
// planned there.
func (c *checker) plan(ast *cel.Ast) (cel.Program, error) {
	small, err := c.planner(ast.NativeRep())
	if err != nil {
		return nil, err
	}
	if small == nil {
		return c.env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency), cel.CostTracking(&charges{}),
			cel.CustomDecorator(c.bound))
	}
	return small.Program(ast, append(programOptions[:len(programOptions):len(programOptions)],
		cel.CustomDecorator(c.bound))...)
}

// programOptions are those of an environment.
//
// Source: baseOpts in k8s.io/apiserver/pkg/cel/environment/base.go, and the ProgramOptions of the
// libraries there.
var programOptions = []cel.ProgramOption{
	cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
	cel.CostLimit(celconfig.PerCallLimit),
	cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
	cel.CostTracking(&charges{}),
	cel.OptimizeRegex(library.FindRegexOptimization, library.FindAllRegexOptimization),
	cel.InterruptCheckFrequency(celconfig.CheckFrequency),
}

// libraries are the functions of libraries with ProgramOptions that nobody else can name.
type libraries struct {
	// inseparable are those of libraries that come with more than is wanted.
	inseparable map[string]*decls.FunctionDecl
	// optional are those of the library that has an environment evaluate or and orValue.
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

// planner returns an environment with the functions that are called, nil where there can't be one.
func (c *checker) planner(ast *celast.AST) (*cel.Env, error) {
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
	// In place of the types that come with the library.
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
