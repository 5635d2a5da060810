// Package verify holds suites of admission tests (package suite) against a real server in the
// process (package review), and reports what differs.
//
//	suites ─▶ a server for each set of flags ─▶ state, mark ─▶ case: judge, compare, undo ─▶ Report ─▶ Print
//
// Cases are independent: each begins with the suite's state alone, since what one has written is
// undone before the next. Suites with the same flags share a server the same way. Only what takes a
// server of its own to undo, a case that writes a CustomResourceDefinition, has one started.
package verify
