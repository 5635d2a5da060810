// Package quota is the arithmetic of ResourceQuota: what one object uses of everything a quota can
// limit, which quotas that concerns, what a write does to their status.used, and whether it may.
//
//	cost, err := quota.CostOf(pods, pod)                           // once an object
//	change := quota.Change{Resource: pods, New: cost}              // one write
//	moved, err := change.Admit(quotas, limited)                    // may it, and what becomes of the quotas
//
// A Cost is computed once, however many quotas it is compared with. A Change is one write: a create
// has no old cost, a delete has no new one. Change.Apply tells what becomes of the quotas,
// Change.Admit the same or why the write is refused; Total sums up from nothing. The three agree:
// applying the changes that led to a set of objects gives what Total says of the set.
//
// # Rules
//
// Names, scopes and messages are Kubernetes 1.36's, and follow its feature gates (Meter.Off): see
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core for what objects use, and checkRequest of
// k8s.io/apiserver/pkg/admission/plugin/resourcequota for who is refused. What differs, on purpose:
//
//   - Limits are those of spec.hard, from the moment they are written, and not those that a
//     controller has copied to status.hard.
//   - A refusal names all that is wrong, joined by "; ", where upstream names the first. For one
//     reason the message is upstream's.
//   - A change moves usage down as well as up. Upstream only ever adds, and leaves the rest to its
//     controller.
//   - Values of scopeSelector are compared as they are. Upstream takes them for label values, and
//     fails every pod where one has more than 63 characters.
//   - Where it isn't known how much is used, only more use is refused. Upstream refuses every
//     create, whatever it uses.
//   - A name in spec.hard that nothing counts has a usage of 0, and not none.
//
// # Time
//
// One kind of cost changes without a write: a pod that is still there when its grace period is over
// costs nothing any more. Cost.Expires says when. Nothing but a repeated Total can account for
// that; see there for what it means to changes.
//
// # Other objects
//
// What a resource claim costs depends on device classes, and where the scheduler made it for a
// pod's extended resources, on the pod and on its other claims. A Meter asks Others for them. A
// write to one of them changes what claims cost: Change.Unties and Change.Uncertain tell when it
// takes a count.
//
// Everything here is pure functions. Nothing blocks but what the caller's Others do, and nothing
// that is passed in is changed.
package quota
