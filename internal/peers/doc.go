// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers lets the servers over one etcd call each other.
//
//	server ── publishes its name, address and authority ──▶ etcd ── watched by ──▶ the other servers
//	server ── mutual TLS, the user in headers ──▶ another server, which decides by the user's rights
//
// Each server makes an authority at its start, whose key never leaves the process. Two certificates
// of it prove to other servers that a call reaches this server, and that a call is this server's.
// The authority's certificate is part of what the server publishes. That is outside of the API, where
// only those can write who can write to etcd, and they could change every object anyway. A Lease of
// the API would not do: others than servers may write Leases in kube-system.
//
// The identity Leases that API servers keep in kube-system have no addresses, and the servers of a
// machine share one. They tell of servers that don't publish themselves: kube-apiserver, and older
// ones.
package peers
