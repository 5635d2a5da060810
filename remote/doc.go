// Package remote runs admission plugins outside the API server that asks them: as its webhooks.
//
//	API server ─▶ AdmissionReview ─▶ Mutate ─▶ chain's mutating phase ─▶ patch, warnings, annotations
//	           ─▶ AdmissionReview ─▶ Validate ─▶ chain's validating phase ─▶ verdict
//
// The plugins are the same as in a server, and none knows where it runs: a review becomes what the
// chain is called with there, and what the plugins did becomes the answer. An object of a kind that
// this build knows is shown in its k8s.io/api type, of another one as it is. The patch has what the
// plugins changed and nothing else, so that fields which this build doesn't know stay as they are.
//
// A plugin that refuses has answered. One that panics, or can't decide because it doesn't learn
// what it has to know, hasn't: the call fails, and the failurePolicy of the webhook decides.
//
// What a server does around its chain isn't here: defaults, validation and storage are the asking
// server's own. So plugins that are told later what storage decided, as ResourceQuota, do here what
// they do beside any other storage.
//
// Rules are what an API server has to ask the plugins about.
package remote
