// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory holds the objects of a cluster, from files or as they were read, and answers which
// webhooks are asked about a write. Nothing is called and nothing is written.
//
//	documents ─▶ New ─▶ Inventory ─┬─ Webhooks, Policies, Bindings     what decides about writes
//	                               ├─ Backend(webhook)                 its Service, endpoints and workloads
//	                               └─ Asks(webhook, write)             by package matching and its conditions
//
// A Write is a request that somebody would make: a controller that creates a pod of a Deployment, a node that
// renews its Lease. Rules, selectors and match conditions are evaluated by the packages that the server
// evaluates them with.
package inventory
