// Package review judges manifests before they are deployed, by doing with them what a cluster would
// do: each object is written to a real API server in the process, whose chain has the plugins, and
// whose storage has the policies, quotas and LimitRanges, of the cluster that is meant.
//
//	files ─▶ input.Read ─▶ input.Ordered ─▶ Reviewer.Review: write, settle, follow to pods ─▶ Review ─▶ Print
//	state ─▶ input.Read ─▶ Start: stored without admission ──▲
//
// What is admitted is there for what follows. Where a verdict depends on what a controller would
// do, that is done at once: a namespace gets its service account, a workload its pods, one after
// the other, as the controller's own service account. No controller runs.
//
// Every verdict has the decision that it is made of, as a server records it (package decision).
package review
