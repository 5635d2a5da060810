// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify runs suites of admission tests (package suite) on a real server in the process
// (package review), and reports the differences.
//
//	suites ─▶ a server for each set of flags ─▶ state, mark ─▶ case: judge, compare, undo ─▶ Report ─▶ Print
//
// Cases are independent: each begins with the suite's state alone, because the writes of one case
// are undone before the next. Suites with the same flags share a server the same way. A case that
// writes a CustomResourceDefinition can't be undone, so it gets a new server.
package verify
