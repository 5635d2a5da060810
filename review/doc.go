// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package review judges manifests before they are deployed. It writes each object to a real API
// server in the process. The server's chain has the plugins of the cluster in question, and its
// storage has the cluster's policies, quotas and LimitRanges.
//
//	files ─▶ Read ─▶ order ─▶ Reviewer.Review: write, settle, follow to pods ─▶ Review ─▶ Print
//	state ─▶ Read ─▶ Start: stored without admission ──▲
//
// Later objects see the admitted ones. If a verdict depends on the work of a controller, that work
// is done at once: a namespace gets its service account, a workload its pods, one after the other,
// as the controller's own service account. No controller runs.
//
// Every verdict comes with its decision, as a server records it.
//
// A Trial judges requests that were recorded, or that existing objects would come with, by a candidate
// and by what it is compared with:
//
//	audit log ─▶ Trial.Replay ─┬▶ judge: two servers, nothing is stored ─▶ impact.Report ─▶ Write
//	objects ───▶ Trial.Audit ──┘
//
// Read, Document, ConnectCluster, Cluster, Start, Reviewer, Options, Review, Snapshot, StartTrial,
// Trial.Replay and Trial.Audit are promised to stay compatible, see docs/compatibility.md. The command
// uses the other names, which have no promise.
package review
