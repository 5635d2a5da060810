// Package webhook is dynamic admission: it asks the webhooks that Mutating- and
// ValidatingWebhookConfigurations name, in Kubernetes' protocol, and does what they answer. The
// plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook are thin shells around Mutating
// and Validating.
//
// # From configuration to call
//
//	configurations ── source: informer and manifests ─▶ snapshot ── index ─▶ candidates ── match ─▶ calls
//	                  on each change                    immutable   a map    of a request  selectors,
//	                                                                look-up                conditions
//
// A source compiles all configurations into a snapshot whenever one of them changes, and swaps a
// pointer. Compiling parses selectors, compiles match conditions and makes clients; webhooks that
// didn't change are taken over as they are. A request works with one snapshot from its beginning to
// its end, so that a configuration which changes or goes meanwhile does it no harm.
//
// Which webhooks have a rule for a request depends on its operation, resource, subresource and
// scope alone. A snapshot works that out at the first request with such a target, and remembers it.
// Webhooks that can't match cost nothing after that, however many there are.
//
// What a request's webhooks need of it is made once, when the first of them asks: the object in the
// version that a webhook wants (package review encodes it), the variables of match conditions
// (package expression), the labels of the namespace. After a patch, what depends on the object is
// made anew.
//
// # The two phases
//
// Mutating webhooks are called one after the other, each with what its predecessors made of the
// object. The chain calls all mutating plugins once more where one of the patches changed
// something, and then those webhooks are called again that asked for it (reinvocationPolicy:
// IfNeeded) and whose object is not what they left. Validating webhooks are called in parallel; of
// several refusals the first in configuration order is the answer.
//
// # Failing
//
// A webhook that can't be called or doesn't answer properly fails the request or is ignored, as its
// failurePolicy says. What it answers properly and can't be done (a patch that doesn't apply) fails
// the request. Every error names the webhook. The deadline of the request bounds all calls.
//
// # Parity
//
// Behaviour, messages, metrics and audit annotations are those of
// k8s.io/apiserver/pkg/admission/plugin/webhook; where they differ the plugins' manual pages say
// so. The metrics are upstream's own, of k8s.io/apiserver/pkg/admission/metrics.
package webhook
