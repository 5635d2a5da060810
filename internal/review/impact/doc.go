// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package impact says what a candidate, such as a new policy, would change: for the objects of a cluster
// (gatehouse audit) and for requests that were recorded (gatehouse replay).
//
//	Result ─▶ Collector: count, group, keep ─▶ Report ─▶ Write: text, JSON, YAML, JUnit, SARIF, …
//
// A Collector keeps the results in a file without a name, so that its memory doesn't depend on their
// number. The Report reads them from there, as often as a format needs them.
package impact
