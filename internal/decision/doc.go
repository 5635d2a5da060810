// Package decision is what became of requests, and why: which plugin changed what, who refused,
// what took how long.
//
//	request ─▶ Recorder.Filter ─▶ chain: Recorder as its Observer ─▶ answer ─▶ record ─▶ Store ─▶ API, watchers
//	                                                                                └─▶ log, audit annotations
//
// The chain tells the Recorder of each plugin's step: how long it took, what it came to, what it
// changed in the object as a JSON patch, and the steps within it, as webhooks and policies. The
// filter around the request knows what the chain doesn't: the answer. Both together are a decision
// (v1alpha1.Decision), one for each request, however often storage made the chain try again. The
// plugins know nothing of it.
//
// A Store keeps the last decisions, bounded in number and bytes: those that refused or failed, and
// those that changed something, longer than those of which there is nothing to tell. It is one
// server's memory. Package decision/api serves it.
//
// What is secret is not kept: of the values of Secrets, tokens, and fields and environment
// variables that are called as credentials are, it is only said that they changed. Objects are not
// kept at all, only what changed in them. Everything that a client, a webhook or a policy can make
// large is cut, and says so.
package decision
