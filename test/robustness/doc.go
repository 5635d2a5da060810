// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package robustness runs three etcd members and two servers over them, each a process, and clients that
// read, write and watch. Meanwhile it kills, stops and slows processes, cuts and delays the network, fills
// and slows disks, replaces members, compacts and defragments their data, and moves a server's clock.
// Afterwards it checks what clients, etcd and servers recorded; the checks are in the package check.
//
//	go test ./test/robustness -v                                             for a minute
//	go test ./test/robustness -v -robustness.duration=4h -timeout=6h         for hours
//	go test ./test/robustness -v -robustness.seed=7                          the faults of a seed
//	go test ./test/robustness -v -run=TestCheck -robustness.history=DIR      check a history again
//
// A run prints its seed. The same seed causes the same faults, and clients choose in the same way, but
// not at the same moments.
//
// # What to do with a violation
//
// A failed run keeps its directory and prints the command that checks it again. The directory has the
// history as lines of JSON (see the package check), the logs, and the data of etcd and of the servers.
//
//   - linearizability: no order of the requests to an object explains the answers.
//   - writes: an acknowledged write or deletion is lost, or a refused write is stored.
//   - lists: a list isn't what was stored at its revision, or lacks what was acknowledged before it.
//   - watches: an event is missing, wrong, there twice or in the wrong order.
//   - quotas: a quota's usage isn't that of the objects at a revision of etcd.
//   - refusals: a quota refused a request although there was room.
//   - generations: a server went back to an older policy or webhook.
//   - decisions: a request has no decision, two, or one that doesn't fit its answer.
//   - clocks: a server's clock wasn't as the test set it.
//   - leases: the controllers of two servers worked at the same time.
//   - lives: a server panicked, ended by itself, or was told to end and did so too late or with an error.
//   - revisions: the record of etcd's history has a gap. The other checks prove nothing then.
//   - enough: too little happened for the checks to mean anything.
//
// A run also fails if not all works again within a minute after a fault.
//
// A server that isn't ready yet may end by itself only while a fault keeps it from etcd, and one that is told
// to end then may end late or with an error. Faults of etcd's members, of their disks and of the network to
// them are such faults; those that only servers and their clients have aren't.
//
// # To add a fault or a check
//
// A fault is a row of faults in faults_test.go. A check is a method that Check calls, in
// check/report.go, and a wrong history for it is a row of TestWrong.
//
// # What isn't tested
//
// A machine that loses its power: a process that is killed has written all that the kernel took. A server
// that is stopped for longer than its lease: its controllers find out too late that others lead, as with
// all leases of Kubernetes. Disks are slow and full only on Linux, full ones only for root, and clocks
// are wrong only on Linux on amd64. The counts at the end of a run show which faults there were.
package robustness
