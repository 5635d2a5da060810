// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package judge says what admission control would answer to requests that aren't made: recorded ones, or
// those that existing objects would come with.
//
//	Request ─▶ decode, default ─▶ mutating phase ─▶ prepare, validate ─▶ validating phase ─▶ Verdict
//
// A Judge calls the chain of a server in the process, whose storage has the state and the candidate. It
// passes the chain what the server's own handlers would pass. Nothing is stored, so requests are
// independent of each other and are judged concurrently. What they count in quotas is up to the caller; see
// Judge.WithQuotas.
//
// A Trial judges a request by a candidate and by what it is compared with, and says what the candidate would
// change. Each does so for a stream of requests.
//
// A request that can't be judged is Failed, with the reason in Verdict.Err.
package judge
