// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record writes requests to a file, so that they can be judged again: package recorded reads
// the file.
//
//	server:  Recorder: Filter and Observer of the chain ─▶ Log ─▶ file, rotated
//	webhook: each AdmissionReview                       ─▶
//
// A line is an AdmissionReview with its response, and with recorded.Details. The object is as the
// mutating phase began with it, before any plugin changed it; a validating review has it as it came.
//
// No request waits for the file, and none fails because of it. What can't be written is dropped and
// counted.
//
// Values of Secrets are left out: in objects, in old objects, and in messages about Secrets. Tokens
// in TokenRequests are left out, and reviews of access aren't recorded. Everything else is as it was
// sent, since it couldn't be judged otherwise: environment variables, arguments, and the commands of
// exec. So the file is its owner's only.
package record
