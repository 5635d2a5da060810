// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote runs admission plugins outside the API server that asks them, as webhooks.
//
//	API server ─▶ AdmissionReview ─▶ Mutate ─▶ chain's mutating phase ─▶ patch, warnings, annotations
//	           ─▶ AdmissionReview ─▶ Validate ─▶ chain's validating phase ─▶ verdict
//
// The plugins are the same as in a server, and no plugin knows where it runs. A review is converted
// to the arguments with which a server calls the chain, and the plugins' results are converted to
// the answer. An object of a kind that this build knows is shown in its k8s.io/api type, any other
// one is unstructured. The patch has what the plugins changed and nothing else, so fields that this
// build doesn't know stay as they are.
//
// A plugin that refuses has answered. A plugin that panics, or can't decide because it lacks
// information, has not: the call fails, and the failurePolicy of the webhook decides.
//
// Defaults, validation and storage are the asking server's own. So plugins that a server tells
// later what storage decided, such as ResourceQuota, do here what they do beside any other storage.
//
// Rules returns the webhook rules with which an API server asks the plugins.
//
// The package has no promise of compatibility.
package remote
