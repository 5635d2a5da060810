// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decision records what happened to requests, and why: which plugin changed what, which one
// refused, and how long each took.
//
//	request ─▶ Recorder.Filter ─▶ chain: Recorder as its Observer ─▶ answer ─▶ record ─▶ Store ─▶ API, watchers
//	                                                                             └─▶ log, audit annotations
//
// The chain reports each plugin's step to the Recorder: its duration, its verdict, the object before
// and after, and the calls within it, such as webhooks and policies. The filter around the request
// sees the answer, which the chain doesn't know. Both together become one record for each request,
// however often storage made the chain try again. Plugins hold no code for it.
//
// A Store keeps the last records, bounded in number and bytes. It keeps refusals, failures and
// changes longer than others. It is the memory of one server. Package decision/api serves it. A
// decision (v1alpha1.Decision) is made of a record when somebody reads it: most are never read.
//
// Values of Secrets are not kept. Of the values of Secrets, tokens, and fields and environment
// variables with names of credentials, a decision says only that they changed. Objects are not kept,
// only what differs in them. Everything that a client, a webhook or a policy can make large is cut, and is
// marked as cut.
package decision
