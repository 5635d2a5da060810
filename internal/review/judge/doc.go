// Package judge says what admission control would answer to requests that aren't made: recorded ones, or
// those that existing objects would come with.
//
//	Request ─▶ decode, default ─▶ mutating phase ─▶ prepare, validate ─▶ validating phase ─▶ Verdict
//
// A Judge calls the chain of a server in the process, whose storage has the state and the candidate. It
// passes the chain what the server's own handlers would pass. Nothing is stored, so requests are
// independent of each other and are judged concurrently. Judged requests don't count in quotas.
//
// A Trial judges a stream of requests, by a candidate and by a baseline if there is one, and tells the
// Difference. Its memory doesn't depend on the length of the stream.
//
// A request that can't be judged is Failed, with the reason in Verdict.Err.
package judge
