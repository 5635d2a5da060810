// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servertest is what tests that use a running server as its users do have in common, so
// that each of their packages says only what its tests are about.
//
// A [Cluster] is a server in the test's own process, by gatehousetest, with clients of its
// administrator. [Start] runs one for a test, configured by options such as [Configured] and
// [RuntimeConfig]; [StartError] is for one that must not start. Tests that can share a server start
// it with the package's [Suite] instead of their own testing.T, and each keeps to a
// [Cluster.Namespace] of its own. Users other than the administrator come from [Cluster.As], and
// get their rights by [Cluster.Grant]. [Cluster.Kubectl] is the real kubectl, and [Process] the
// real gatehouse, for a server that is to be killed. A program that must be told its port gets a
// [FreePort].
//
// Tests wait for events. Where nothing tells of one, as of what a cache in the server shows,
// [Eventually] and [Retry] ask again and again.
package servertest
