// Package policy is admission by policies in CEL: it evaluates the ValidatingAdmissionPolicies that
// the API, or files, have on requests. The plugin ValidatingAdmissionPolicy is a thin shell around
// Validating. Which requests a policy is about is for package matching to say, what its expressions
// come to for package expression.
//
// # From policy to decision
//
//	policies, bindings ── matching.Source ─▶ snapshot ── index ─▶ candidates ── match ─▶ invocations ─▶ decisions
//	and param kinds       on each change     immutable   a map    of a request  selectors,  a binding
//	                                                     look-up                params      and params each
//
// A snapshot has all policies that have a binding, in order of their names, those of files first.
// It is made anew when a policy, a binding or what is known of a param kind changes, from what was
// made of them before: what didn't change is taken over, compiled expressions too. Expressions are
// compiled when the first request needs them: thousands of policies are in force at once, and no
// request waits for a compilation that it doesn't need.
//
// What any kind of policy has in common is engine, params and invocations; E is what a kind of
// policy does besides. candidate.concerned calls back for each binding and params of one policy that a
// request concerns, in order:
//
//	candidates, err := engine.candidates(ctx, a, interfaces)
//	r := engine.request(a, interfaces)
//	for i := range candidates {
//		err := candidates[i].concerned(ctx, r, fail, func(in *invocation) { … in.variables.Run(…) … })
//	}
//
// fail is told of what is wrong with the configuration of a policy, or one of its bindings. It is
// for the failure policy to say what comes of that.
//
// # Params
//
// Each kind of params, built-in or custom, has an informer of its own while a policy in force asks
// for it. A kind that isn't there, or not yet, is looked for every second; until then its policies
// are in error. Params are JSON as they come, and are selected anew only when one of the kind has
// changed.
//
// # What is done once
//
// A policy none of whose expressions reads params, be it by a variable, is evaluated once for all
// its bindings and params; any expression that doesn't, once for all policies that have the same
// one. Budgets are charged all the same.
//
// # Parity
//
// Behaviour, messages, metrics and audit annotations are those of
// k8s.io/apiserver/pkg/admission/plugin/policy/{generic,validating}; where they differ the plugins'
// manual pages say so.
package policy
