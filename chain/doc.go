// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chain runs admission plugins in two phases.
//
// A write that has been authenticated and authorized passes the chain once. First every mutating
// plugin, in order, may change the object. Then, after the server has validated the result, every
// validating plugin, in order, sees the object's final state and may refuse it. The first error ends
// the request.
//
// A [Chain] is composed of plugins that package plugin describes; package chain/config chooses them
// and reads their configuration. The chain shows objects to plugins in their k8s.io/api types,
// runs the mutating plugins once more if one asks for it, replaces plugins if their configuration
// changes, and reports each step to observers.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
//
// The files follow a request: request.go gives it its plugins, generation.go runs the phases,
// selection.go finds the plugins that it concerns, attributes.go converts its objects.
package chain
