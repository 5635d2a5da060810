// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninitialized hides objects that still wait for their initializers: those whose
// annotation initializers.gatehouse.dev/pending (package apis/initializers) is not empty. The admission
// plugin Initializers sets it, and decides which users may change it.
//
//	create ─▶ stored, hidden ─ the first initializer updates it, the second … ─▶ visible: watches see ADDED
//	              │    └ one of them sets the annotation error, or somebody deletes it ─▶ gone: watches see nothing
//	              └ the creator's request waits
//
// # Hiding
//
// A store of a kind is wrapped above its watch cache. Get doesn't find a hidden object, and list
// leaves it out of what is returned. A watch selects by one field more, which hidden objects have:
// the watch cache knows anyway what a change means for a watch that selects by fields, and so what
// becomes visible is ADDED. Names of hidden objects are taken, as they are stored like all others.
//
// Requests with the parameter includeUninitialized=true see everything. So do requests that write
// or delete the object itself: an update must find what it changes, though admission decides who
// may; and deletion, of one or of a collection, is of initialized and uninitialized objects alike,
// as it was in Kubernetes. A dry run of a deletion sees what a reader sees, since it would be a way to
// read the rest. Subresources are found by name, so those of a hidden object that are
// read first don't exist.
//
// # Waiting
//
// A request that created a hidden object is answered when the object is initialized, with what has
// become of it. If an initializer fails, its reason is the answer, and the registry takes back what it had
// allocated for the object. In the other cases the object was created as far as the registry is
// concerned, so the filter replaces the answer: with 504 if the time is over, and with 500 if somebody
// deleted the object meanwhile.
//
// Nothing but the answer depends on the waiting request. After a crash, or with the initializer at
// another server, hidden objects are what they were: waiting for their initializers.
//
// # Deleting
//
// An object that failed, or is deleted, while it is hidden goes at once, whatever its finalizers
// and its grace period: nobody who would act on them has ever seen it. Kubernetes did so with
// objects that failed. The reason is stored first, for the requests that wait. A server that is killed
// between the two leaves an object that nobody sees. A store removes such objects when it begins, and
// when they are in the way of a creation.
//
// # What it costs
//
// Looking for the annotation takes a few nanoseconds for each object, and no allocation. A write to an
// object allocates a writer that can replace its answer, and a watch allocates a selector.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package uninitialized
