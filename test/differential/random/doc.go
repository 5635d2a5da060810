// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package random sends random requests to Gatehouse and to kube-apiserver, and compares status,
// warnings, body and audit annotations of the answers.
//
//	go test ./random                                                        the same 25 rounds, of some 4,000 requests
//	go test ./random -timeout=3h -random.seed=0 -random.duration=2h         others
//	go test ./random -random.seed=4 -random.round=17                        one round again
//
// A seed chooses the optional plugins and their configuration, and the version that the servers emulate,
// and makes rounds. After ten minutes the next seed follows, with new servers. EventRateLimit isn't
// among the plugins: its answers depend on the time. A round is a namespace, its configuration (quotas, LimitRanges,
// webhooks, policies, classes, roles), and requests in it: objects that are valid or nearly so, by all
// verbs, patch types and subresources. The same seed makes the same requests.
//
// The environment variable DIFFERENTIAL_BIN may name a directory with the programs. Without it the test
// builds them.
//
// # What to do with a difference
//
// If an answer differs in a way that docs/differences.md doesn't have, the round is sent again, and its
// requests and their bodies are shrunk while the difference stays. The test fails with the few that are
// left, as rows for the tables of test/differential.
//
//   - Add the rows to a table, for example in test/differential/requests_test.go.
//   - Mend Gatehouse. If the difference is wanted, write it to the plugin's manual page and to
//     docs/differences.md, and have the row expect it (withDifference).
//   - A wanted difference gets a row in differences.go, too. Its condition is as narrow as the two
//     answers allow.
//
// A difference that isn't there a second time is logged, and the test goes on. Validation lists errors
// in the order of Go's maps, for example.
//
// # The files
//
// generate.go chooses the requests, skeletons.go has valid objects, schema.go makes others from the
// schemas that the server publishes, mutate.go makes them nearly valid, and configuration.go makes
// quotas, webhooks and policies. round.go sends a round, explain.go and differences.go know what is documented, and
// shrink.go shrinks the rest.
package random
