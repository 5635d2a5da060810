// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger charges ResourceQuotas in the etcd transaction that stores the object.
//
// Ledger says what that guarantees. AccountFor puts the ledger between a kind's store and etcd.
// From there a write takes this way:
//
//	          write of an object in a namespace
//	                        │
//	                        ▼             no quotas, and none demanded
//	                  ┌───────────┐  ─────────────────────────────────────▶ ┌────────────┐
//	                  │  compute  │  moves no quota                         │  transact  │
//	                  │  change   │  ─────────────────────────────────────▶ │  alone     │
//	                  └───────────┘                                         └────────────┘
//	                        │ moves quotas
//	                        ▼
//	┌───────────────▶ ┌───────────┐  no room            ┌───────────┐  no room
//	│                 │  decide   │ ──────────────────▶ │  stored   │ ────────▶ refused
//	│                 │ (in turn) │ ◀────────────────── │ (look at  │
//	│                 └───────────┘  room, or not known:│  etcd)    │ ────────▶ conflict: the
//	│                       │ room   settle, then decide└───────────┘  object has changed
//	│                       ▼
//	│ quotas have     ┌───────────┐  stored
//	│ changed:        │  send     │ ────────▶ charged; those who count are told
//	│ the account     │           │
//	└──────────────── │           │ ────────▶ conflict: the object has changed
//	  is stale        └───────────┘
//
// A transaction holds only if the namespace's quotas are as they were when it was decided. Writes
// are decided one at a time, each on the state that the one before will leave (the account's tip),
// and several are sent at once. These are the states of an account, of which there is one for each
// namespace:
//
//	             refresh: read the quotas, count what shows no usage
//	┌─────────┐ ────────────────────────────────────────────────────▶ ┌─────────┐
//	│ unknown │                                                       │  known  │ ◀─┐ decide: the tip
//	│ no tip  │ ◀──────────────────────────────────────────────────── │  tip    │ ──┘ moves on, one
//	└─────────┘   a quota is written itself                           └─────────┘     more flies
//	     ▲                                                                 │
//	     │  settle: wait until nothing flies      ┌─────────┐              │ a transaction
//	     └─────────────────────────────────────── │  stale  │ ◀────────────┘ that flew failed
//	                                              └─────────┘
//
// A write to a quota itself (commitQuota) takes the turn, waits until nothing flies, and is decided
// on what is stored.
//
// Three counts run in the background, and no request waits for them: of pods that have ended
// (expire.go, ended.go), of objects that another one made cheaper or dearer (others.go), and of objects that a
// quota's usage was stated to contain (unseen.go).
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package ledger
