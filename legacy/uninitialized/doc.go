// Package uninitialized hides objects that still wait for their initializers: those whose
// annotation initializers.gatehouse.dev/pending (package apis/initializers) is not empty. The
// admission plugin Initializers sets it, and says who may change it.
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
// as it was in Kubernetes. A deletion that is only tried sees what a reader sees: it would be a way
// to read the rest. Subresources are found by name, so those of a hidden object that are
// read first don't exist.
//
// # Waiting
//
// A request that created a hidden object is answered when the object is initialized, with what has
// become of it. Where an initializer fails, its reason is the answer, and the registry takes back
// what it had allocated for the object. In the other cases the object was created as far as the
// registry is concerned, and what the client is told must be another thing: the filter replaces the
// answer with 504 where the time is over, and 500 where somebody deleted the object meanwhile.
//
// Nothing but the answer depends on the waiting request. After a crash, or with the initializer at
// another server, hidden objects are what they were: waiting for their initializers.
//
// # Deleting
//
// An object that failed, or is deleted, while it is hidden goes at once, whatever its finalizers
// and its grace period: nobody who would act on them has ever seen it. Kubernetes did so with
// objects that failed. The reason is stored first, for who waits. A server that is killed between
// the two leaves an object that nobody sees: a store removes those when it begins, and one that is
// in the way of a creation then.
//
// # What it costs
//
// What isn't hidden is looked at for the annotation, a few nanoseconds an object and no allocation.
// A write to an object allocates the place for its answer to be replaced, and a watch a selector.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package uninitialized
