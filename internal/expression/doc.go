// Package expression compiles the CEL expressions of match conditions and policies and evaluates
// them on requests.
//
//	compiler := expression.NewCompiler()                                          // once
//	conditions := compiler.Compile(webhook.MatchConditions)                       // once a configuration
//	variables := expression.NewVariables(object, oldObject, request, user, authz) // once a request and version
//	verdict := conditions.Match(ctx, variables)                                   // once a webhook
//
// Language, function library, variables, costs and messages are Kubernetes 1.36's: an expression is
// compiled in k8s.io/apiserver's environment of stored expressions, so that what any version of
// Kubernetes has accepted runs. Its variables are object, oldObject, request, authorizer,
// authorizer.requestResource, and namespaceObject, which is declared, as upstream, but null in a
// match condition.
//
// # Policies
//
// What the expressions of a policy have in common, its variables above all, is a Composition. They
// are evaluated in runs, each against one budget: the validations of a policy for one params are
// one, their messages another with what the first has left.
//
//	policy := compiler.Compose(spec.Variables, spec.ParamKind != nil)        // once a policy
//	validation := policy.Expression(text, expression.Condition)              // once for each
//	conditions := policy.Conditions(spec.MatchConditions)
//	params := expression.NewParams(object, kind)                             // once for each that changed
//	verdict := conditions.MatchParams(ctx, variables, params)                // once a request, policy and params
//	run := variables.Run(expression.Inputs{Params: params, Namespace: namespace, Authorizer: true})
//	result, outOfBudget := run.Evaluate(ctx, validation)                     // once for each
//	run = run.Next(expression.Inputs{Params: params, Namespace: namespace})  // messages have no authorizer
//
// A variable is evaluated when an expression reads it, once a run, and its cost is charged to the
// expression that was the first of the run to do so.
//
// # When work is done
//
// The environment is made when the first expression is compiled, once a process. An expression is
// compiled when it is first evaluated, once for all that read alike: that takes 0.3 ms and 5 kB,
// which the expressions of a webhook or policy that no request reaches don't cost. No compilation
// waits for another. A variable is converted when the first expression reads it, params once for
// all requests. An expression is evaluated once for all webhooks and policies that are matched with
// the same Variables and by the same Compiler's expressions, and for all params where neither it
// nor a variable that it reads reads params. What is remembered is charged as if it had been
// evaluated.
//
// # What a verdict of match conditions is made of
//
// Conditions are evaluated in order, up to the first that is false: the webhook isn't to be called.
// An error counts only if no condition is false. All conditions of a webhook share one cost budget;
// where it is used up, the conditions left are not evaluated, and that is an error. Evaluation ends
// with the context, authorizer checks within it too.
//
// What differs from k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions and from
// k8s.io/apiserver/pkg/admission/plugin/cel, on purpose:
//
//   - A condition that is false wins over the budget that later conditions would exceed, as the API
//     documents. Upstream evaluates all conditions first and fails.
//   - A context that has ended is an error. Upstream looks at it within comprehensions only, and
//     not in authorizer checks.
//   - A variable that can't be converted is an error of the expressions that read it. Upstream
//     fails all.
//   - Errors of a webhook's conditions name the condition.
//   - What allocates or does more than upstream charges for is charged, and refused before.
//   - A policy's variable sees those before it and no others, by whichever way. One that gets at
//     itself, as dyn(variables).a in a does, ends upstream's process.
package expression
