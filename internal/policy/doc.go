// Package policy is admission by policies in CEL: it evaluates the ValidatingAdmissionPolicies and
// MutatingAdmissionPolicies that the API, or files, have on requests. The plugins of these names
// are thin shells around Validating and Mutating. Which requests a policy is about is for package
// matching to say, what its expressions come to for package expression, and what a mutation does to
// an object for package mutation.
//
// # From policy to decision
//
//	policies, bindings ── matching.Source ─▶ snapshot ── index ─▶ candidates ── match ─▶ invocations ─▶ decisions
//	and param kinds       on each change     immutable   a map    of a request  selectors,  a binding
//	                                                     look-up                params      and params each
//
// A snapshot has all policies that have a binding, in order of their names, those of files first.
// It is made anew when a policy, a binding or what is known of a param kind changes, from what was
// made of them before: what didn't change is taken over, compiled expressions too. Thousands of
// policies are in force at once: their expressions are compiled after that, by one goroutine, in
// their order. A request that needs one before its turn compiles that, and waits for no other.
//
// What any kind of policy has in common is engine, params and invocations; E is what a kind of
// policy does besides. candidate.concerned calls back for each binding and params of one policy
// that a request concerns, in order:
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
// # Mutations
//
// Which mutating policies a request concerns is found out before the first is evaluated. Then each
// sees the object as those before it have left it, in its own version: what expressions have read
// of it is read again where it has changed. The object goes from one to the next in the form in
// which they need it, and is converted back at the end. Where they have changed it, all mutating
// plugins run once more, and then the policies are evaluated again that ask for it.
//
// # Parity
//
// Behaviour, messages, metrics and audit annotations are those of
// k8s.io/apiserver/pkg/admission/plugin/policy/{generic,validating,mutating}; where they differ the
// plugins' manual pages say so.
package policy
