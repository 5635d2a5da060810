// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint finds what is dangerous in webhook configurations and admission policies before it happens:
// a webhook that keeps its own pods from starting, timeouts that add up, policies that nothing binds.
//
//	documents ─▶ inventory ─▶ Rules, one by one ─▶ Findings ─▶ Report ─▶ text, JSON, YAML, JUnit, SARIF, GitHub
//	                                                   └─ patches ─▶ Fix: the files, with their comments
//
// A Rule is a row of a table, with an ID that stays. The rules are in files by family: cycle.go, scope.go,
// timeouts.go, fields.go, never.go, conditions.go, failing.go, backend.go, certificates.go, policies.go, types.go,
// costs.go, bindings.go, advice.go. What a webhook is asked about is answered by package inventory, which drills share.
// Expressions are evaluated on the requests of requests.go, which package matching describes as a server does.
// docs/lint.md explains each rule.
package lint
