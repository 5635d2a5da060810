// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration keeps the Mutating- and ValidatingWebhookConfiguration of an installation,
// by which a cluster's API servers ask its plugins.
//
// The configurations follow from the plugins' Descriptors. Mutating and Validating return them,
// Calls what they call, Served what a replica has to serve for them:
//
//   - One call asks all plugins of a phase. If plugins differ in their failure policy, there is one
//     call for each policy; with PerPlugin, one for each plugin.
//   - No call is made for the exempt namespaces. Plugins that look at cluster-scoped objects see
//     all of them. Namespace objects count as objects in their namespace.
//   - A plugin that is asked about everything isn't asked about Leases, events, reviews of access
//     and tokens, and what Gatehouse itself writes. Asking about these would lock a cluster out, or
//     would cost much and can't matter. A plugin that names events is asked about them. No plugin
//     is asked about Leases.
//   - API servers never ask about webhook configurations.
//
// A Keeper in each replica keeps them true. A Lease elects one leader. It creates missing
// configurations once it serves, and undoes others' changes within moments. All replicas watch the
// configurations, since package certificates must know which certificates API servers trust. When a
// replica stops, nothing is removed: the failure policy decides about requests until another
// replica serves, as in every rolling update. With RemoveAtEnd, for processes in the foreground,
// the leader removes the configurations.
//
// With CheckReached, nothing is registered before the API server has reached a replica. The Keeper
// finds that out by a configuration of its own, by which the API server calls ProbePath about a
// Lease, and by creating that Lease in a dry run.
//
// Remove ends the replicas, and deletes everything that they keep. The configurations are also dependents of the
// installation's Namespace, so they are removed when it is.
//
// A configuration of the same name with other labels is somebody else's and is never written to.
//
// The package has no promise of compatibility.
package registration
