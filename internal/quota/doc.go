// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota is the arithmetic of ResourceQuota: how much one object uses of everything a quota can
// limit, which quotas are concerned, how a write changes their status.used, and whether the write is
// allowed.
//
//	cost, err := quota.CostOf(pods, pod)                           // once an object
//	change := quota.Change{Resource: pods, New: cost}              // one write
//	moved, err := change.Admit(quotas, limited)                    // the changed quotas, or a refusal
//
// # The way of a write
//
// The ResourceQuota plugin measures the object before and after the write. A Meter (cost.go) does so by
// kind: pod.go and omissions.go for pods, objects.go for services and persistent volume claims,
// claim.go for resource claims; other objects are only counted. A Cost is computed once, however many
// quotas it is compared with.
//
// A Change is one write: a create has no old cost, a delete has no new one. Change.Apply (change.go)
// returns the quotas with their new usage. Change.Admit (admit.go) does the same, or returns why the
// write is refused. Change.Explain (explain.go) says it in words. scope.go decides whether a quota's
// scopes include an object, names.go which resources count for a name in spec.hard. Total (total.go)
// computes a usage from nothing. The three agree: applying the changes that led to a set of objects
// gives what Total returns for the set.
//
// A server that stores objects charges quotas in the transaction of the object. There the plugin leaves
// an Enforcement (enforcement.go) in the request's context, and storage takes it, admits the change on
// the state of its transaction, and reports back.
//
// # Rules
//
// Names, scopes and messages are Kubernetes 1.37's, and follow its feature gates (Meter.Off). For the
// costs see k8s.io/kubernetes/pkg/quota/v1/evaluator/core, for the refusals checkRequest of
// k8s.io/apiserver/pkg/admission/plugin/resourcequota. Intended differences:
//
//   - Limits are those of spec.hard, from the moment they are written, and not those that a
//     controller has copied to status.hard; see Change.StatusLimits.
//   - A refusal names everything that is wrong, joined by "; ", while upstream names the first. For a
//     single reason the message is upstream's.
//   - A change moves usage down as well as up. Upstream only adds, and leaves the rest to its
//     controller.
//   - Values of scopeSelector are compared as they are. Upstream takes them for label values. If one
//     has more than 63 characters, it refuses every pod.
//   - If the usage of a name is unknown, only a change that uses more of it is refused. Upstream
//     refuses every create, whatever it uses.
//   - A name in spec.hard that nothing counts has a usage of 0, and not none.
//
// # Time
//
// One kind of cost changes without a write: a pod that still exists when its grace period is over no
// longer costs anything. Cost.ExpiresAt returns that time. Only a new Total can account for it; see
// there for what that means for changes.
//
// # Related objects
//
// The cost of a resource claim depends on device classes. If the scheduler made the claim for the
// extended resources of a pod, the cost also depends on the pod and its other claims. A Meter asks
// RelatedObjects for them. A write to one of these objects changes what claims cost:
// Change.AffectsKin and Change.IsUncertain report when the usage has to be counted again.
//
// All functions are pure. Nothing blocks, except that the caller's RelatedObjects may, and no argument
// is changed.
package quota
