// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression compiles the CEL expressions of match conditions and policies and evaluates
// them on requests.
//
//	compiler := expression.NewCompiler()                                          // once
//	conditions := compiler.Compile(webhook.MatchConditions)                       // once a configuration
//	variables := expression.NewVariables(object, oldObject, request, user, authz) // once a request and version
//	verdict := conditions.Match(ctx, variables)                                   // once a webhook
//
// Language, function library, variables, costs and messages are Kubernetes 1.37's. An expression is
// compiled in k8s.io/apiserver's environment of stored expressions, so that everything compiles that
// any version of Kubernetes has accepted. The variables are object, oldObject, request, authorizer,
// authorizer.requestResource and namespaceObject. As upstream, namespaceObject is declared but null
// in a match condition.
//
// # The way of an expression
//
// A Compiler (compiler.go) keeps one program for all expressions with the same text and declarations.
// At its first evaluation a program (program.go) is checked in an environment (environment.go) and
// planned (plan.go). Planning replaces calls that could do more work or allocate more memory than
// Kubernetes charges for (meter.go): resultSizes bounds large results (bound.go), readCosts charges
// for reading (costs.go), and patterns and comparisons have files of their own (match.go, equal.go).
//
// Variables (variables.go, request.go, params.go) holds what expressions read of a request. A Run
// (run.go) evaluates programs on it against a budget. Conditions (conditions.go) runs the match
// conditions of a webhook or policy.
//
// # Policies
//
// A Composition (composition.go) holds what the expressions of a policy share, above all the policy's
// variables. An expression reads them as fields of one value (variablesvalue.go). The expressions of
// a policy are evaluated in runs, each with one budget: the validations for one params are a run, and
// the messages are another, with what the first has left of the budget.
//
//	policy := compiler.Compose(spec.Variables, spec.ParamKind != nil)        // once a policy
//	validation := policy.Expression(text, expression.Condition)              // once for each
//	conditions := policy.Conditions(spec.MatchConditions)
//	params := expression.NewParams(object, kind)                             // once for each that changed
//	verdict := conditions.MatchParams(ctx, variables, params)                // once a request, policy and params
//	run := variables.Run(expression.Inputs{Params: params, Namespace: namespace, Authorizer: true})
//	result, outOfBudget := run.Evaluate(ctx, validation)                     // once for each
//	run = run.Continue(expression.Inputs{Params: params, Namespace: namespace}) // messages have no authorizer
//
// A policy's variable is evaluated when an expression reads it, once in a run. Its cost is charged to
// the first expression that reads it.
//
// mutation.go converts the results of mutations, whose types are in objects.go. A TypeChecker
// (typechecker.go) checks a policy against the types of the objects it is for, for the policy's status.
//
// # When work is done
//
// The environment is made when the first expression is compiled, once in a process. An expression is
// compiled when it is first evaluated, once for all expressions with the same text. Compiling takes
// 0.3 ms and 5 kB, which an expression that no request reaches never costs. No compilation waits for
// another. A variable is converted when the first expression reads it, params once for all requests.
// An expression is evaluated once for all webhooks and policies that share Variables and Compiler, and
// once for all params if neither it nor a variable that it reads reads params. A result that is reused
// is charged as if it had been evaluated.
//
// # Verdicts of match conditions
//
// Conditions are evaluated in order, up to the first that is false: then the webhook isn't called. An
// error counts only if no condition is false. All conditions of a webhook share one budget. When it is
// used up, the remaining conditions are not evaluated, and that is an error. An evaluation ends when
// its context does, authorizer checks included.
//
// Intended differences from k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions and
// k8s.io/apiserver/pkg/admission/plugin/cel:
//
//   - A condition that is false wins over later conditions that would exceed the budget, as the API
//     documents. Upstream evaluates all conditions first and fails.
//   - A context that has ended is an error. Upstream looks at it in comprehensions only, and not in
//     authorizer checks.
//   - A variable that can't be converted is an error of the expressions that read it. Upstream fails
//     all expressions.
//   - Errors of a webhook's conditions name the condition.
//   - Work and memory beyond what upstream charges for are charged, and refused before they are spent.
//   - A policy's variable sees only the variables before it, in whatever way it reads them. One that
//     reads itself, as dyn(variables).a in a does, ends upstream's process.
package expression
