// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies on requests.
// The policies come from the API and from files. The plugins of the same names are thin shells
// around Validating and Mutating. Package matching decides which requests a policy is for, package
// expression evaluates its expressions, and package mutation changes objects.
//
// # From policy to decision
//
//	policies, bindings ── matching.Source ─▶ snapshot ── index ─▶ candidates ── match ─▶ invocations ─▶ decisions
//	and param kinds       on each change     immutable   a map    of a request  selectors,  one for each binding
//	                                                     look-up                params      and its params
//
// engine.go builds a matching.Source for one kind of policies. snapshot.go makes a snapshot whenever
// a policy, a binding or a kind of params changes. A snapshot holds all policies that have a
// binding, in the order of their names, those from files first. Unchanged policies keep their
// compiled form (definition.go). After a snapshot is in force, one goroutine compiles the
// expressions of its new policies. A request that needs an expression earlier compiles it itself and
// waits for nothing else.
//
// A request takes its candidates from the snapshot's index, and visits the invocations of each:
// one for each binding that matches and each of the binding's params (request.go):
//
//	candidates, err := engine.candidates(ctx, a, interfaces)
//	r := engine.request(a, interfaces)
//	for i := range candidates {
//		err := candidates[i].visitInvocations(ctx, r, fail, func(in *invocation) { … })
//	}
//
// Validating.Validate (validating.go) evaluates the validations of each invocation (validation.go)
// and takes the binding's actions. Mutating.Admit (mutating.go) collects all invocations first, and
// then applies the mutations of each (mutations.go). visitInvocations calls fail for an error in the
// configuration of a policy or binding; the failurePolicy decides whether it refuses the request.
// refusal.go words the refusals, report.go tells the chain's observers what each policy did.
//
// # Params
//
// params.go runs an informer for each kind of params that a policy in force uses, built-in or
// custom. If a kind doesn't exist, it is looked for every second. Until it is found, its policies
// fail. Params are kept in the form that expressions read. What a selector selects is remembered
// until an object of the kind changes.
//
// # What is done once
//
// If no expression of a policy reads params, directly or by a variable, the policy is evaluated once
// for all its bindings and params. An expression that doesn't read them is evaluated once for all
// policies that contain it. Budgets are charged as if each evaluation had happened. An authorizer is
// asked each question once per request (authorizer.go).
//
// # Mutations
//
// Before the first mutation, it is decided which policies match the request. Then each policy sees
// the object as the ones before it left it, in the version that the policy asks for. The object
// stays in the form that mutations need and is converted back at the end. If it has changed, all
// mutating plugins run once more. In that second round the policies with reinvocationPolicy IfNeeded
// are evaluated again (reinvocation.go).
//
// # Parity
//
// Behaviour, messages, metrics and audit annotations are those of
// k8s.io/apiserver/pkg/admission/plugin/policy/{generic,validating,mutating}. The plugins' manual
// pages list the differences.
package policy
