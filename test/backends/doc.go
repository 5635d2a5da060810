// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backends runs what plugins ask outside of the cluster, for tests:
//
//   - a backend of ImagePolicyWebhook, see [Images]. It serves TLS, and only to clients with a
//     certificate of its authority.
//   - a real Prometheus, see [StartPrometheus] and [RunPrometheus]. It needs the programs prometheus
//     and promtool, which on Debian are the package prometheus; without them the test is skipped, see
//     package needs.
//   - the parts of two clouds that say where volumes are, see [EC2] and [GCE]: EC2's DescribeVolumes,
//     and Compute Engine's disks with the servers that give tokens for it. Both serve TLS, let in only
//     callers that prove who they are, answer in pages, and fail when a test tells them to.
//
// All of them end with the test.
package backends
