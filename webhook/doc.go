// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook implements dynamic admission. It calls the webhooks that
// MutatingWebhookConfigurations and ValidatingWebhookConfigurations name, and changes or refuses
// requests as they answer. The plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook are
// thin shells around Mutating and Validating.
//
// # From configuration to call
//
//	configurations ── source: informer and manifests ─▶ snapshot ── index ─▶ candidates ── match ─▶ calls
//	                  on each change                    immutable   a map    of a request  selectors,
//	                                                                look-up                conditions
//
// When a configuration changes, a source compiles all of them into a new snapshot and swaps a
// pointer. Compiling parses selectors, compiles match conditions and makes clients. Webhooks that
// didn't change are reused. A request uses one snapshot from its beginning to its end, even if a
// configuration changes meanwhile.
//
// The operation, resource, subresource and scope of a request determine which webhooks have a rule
// for it. A snapshot finds these at the first request with such a target, and remembers them. After
// that, webhooks that can't match cost nothing, however many there are.
//
// The parts of a request that webhooks need are made once, when the first webhook needs them: the
// object in the webhook's version (package review encodes it), the variables of match conditions
// (package expression), the labels of the namespace. After a patch, the parts that depend on the
// object are made again.
//
// # The two phases
//
// Mutating webhooks are called one after the other, each with the object as its predecessors left
// it. If one of the patches changed something, the chain calls all mutating plugins once more. A
// webhook is then called again if it asked for that (reinvocationPolicy: IfNeeded) and the object
// isn't as it left it. Validating webhooks are called in parallel. If several refuse, the first in
// configuration order is the answer.
//
// # Failing
//
// If a webhook can't be called, or its answer is invalid, its failurePolicy decides whether the
// request fails or the webhook is ignored. A patch that can't be applied always fails the request.
// Every error names the webhook. The deadline of the request bounds all calls. Package timeshare
// divides the time until then, so that webhooks under failurePolicy Ignore don't use it up.
//
// # Parity
//
// Behaviour, messages, metrics and audit annotations are those of
// k8s.io/apiserver/pkg/admission/plugin/webhook. The plugins' manual pages list the differences. The
// metrics are upstream's own, of k8s.io/apiserver/pkg/admission/metrics.
//
// The package has no promise of compatibility.
package webhook
