// Package why says in words what became of requests, and why: it is what `gatehouse why` prints.
//
//	API ─▶ Client ─▶ Found: decisions, the object, events ─▶ Explain ─▶ Explanation ─▶ Print
//
// Client asks the API, as any client of it, for the decisions about an object, about what the
// object's controllers make of it, and for what else tells of its past: the managers of its fields
// and events. The rest are functions of what it found. An Explanation of a decision says who
// refused it, within a plugin which webhook, policy, quota or LimitRange, and what would have to
// change; and for each field that differs from what was sent who set it to what.
//
// Each plugin states the remedy for its own refusals (Remedy, in plugin.Descriptor). This package has
// the remedies for things that users configure, by their kind.
package why
