// Package matching finds out which of many configurations concern a request: webhooks, admission
// policies and their bindings. It is what packages webhook and policy have in common, from the
// informers' objects to the answer "yes, and it wants to see the object as apps/v1".
//
// # From configuration to match
//
//	objects of API and files ─▶ Collection ─▶ Source: a snapshot ─▶ Index ─▶ candidates ─▶ Request.Match
//	on each change              compile what    swapped by          a map    of a target   selectors, names,
//	                            changed         pointer             look-up                of a request
//
// A Criteria is one MatchResources, or the rules and selectors of a webhook, made ready: selectors
// parsed, once and for all. It never changes.
//
// A Collection keeps what was made of all configurations of one kind, in the order in which they
// are asked: those from files first, each by name. One that changes is made anew and no other. A
// Source calls an engine's build function whenever one of its informers, or whoever calls Notify,
// has something new, and swaps a pointer to the snapshot that build returns; changes that come in a
// burst are in one snapshot together. A request reads the pointer once and works with that snapshot
// to its end. Until the first snapshot with everything
// the API had at the start is there (Source.Synced) requests wait, see package ready.
//
// # What can't match costs nothing
//
// Whether Criteria have a rule for a request depends on the request's Target alone: operation,
// resource, subresource, and whether it is in a namespace. A snapshot has an Index. It asks the
// engine at the first request with a target which candidates there are, and remembers them; to any
// other request that is a look-up in a map. The engine asks in turn the Resolver, once for each
// Criteria:
//
//	index := matching.NewIndex(func(r *matching.Resolver) []candidate {
//		var all []candidate
//		for _, p := range policies {
//			if r.Target.IsPolicy() && !p.static {
//				continue // lest a policy make itself irremovable
//			}
//			if c := r.Resolve(p.criteria); c != nil {
//				all = append(all, candidate{policy: p, match: c, bindings: …})
//			}
//		}
//		return all
//	})
//	candidates := index.Candidates(matching.TargetOf(a), o.GetEquivalentResourceMapper())
//
// Policies do the same with their bindings, so that bindings without a rule for the target aren't
// looked at either.
//
// A Candidate is Criteria with a rule for the target. What is left to find out is the selectors,
// and the resourceNames of policies, if there are any. That is Request.Match: selectors that say
// the same are evaluated once a request, however many configurations have them, and the namespace
// is looked up once, in the cache and, where that doesn't know it, live.
//
// # Equivalent resources
//
// With matchPolicy Equivalent a rule for apps/v1 deployments is one for extensions/v1beta1
// deployments, too. A Match says what the object is to be shown as: the request's own resource and
// kind where a rule names these, otherwise those of the first rule that names an equivalent.
// Custom resources get and lose versions; the Index notices by what the mapper says, and asks anew.
//
// A Version is the request as a Match wants it: the objects converted, and as the JSON that
// expressions see. It travels with the request (chain.Shared), so that a policy and a webhook that
// want the same have it made once.
//
// # Who is exempt
//
// What Kubernetes doesn't ask webhooks or policies about is for the engines to leave out when they
// resolve: see Target.IsConfiguration, IsPolicy and IsReview.
//
// Sources: k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,predicates} and
// k8s.io/apiserver/pkg/admission/plugin/policy/{generic,matching}.
package matching
