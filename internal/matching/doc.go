// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package matching decides which webhooks, admission policies and bindings a request concerns. It is
// what packages webhook and policy have in common: the way from the configurations in informers and
// files to the answer "yes, and show it the object as apps/v1".
//
// # From configuration to match
//
//	objects of API and files ─▶ Collection ─▶ Source: a snapshot ─▶ Index ─▶ candidates ─▶ Request.Match
//	on each change              compile what    swapped by          a map    of a target   selectors, names,
//	                            changed         pointer             look-up                of a request
//
// A Collection (source.go) compiles all configurations of one kind and keeps the results in the order
// in which they are asked: those from files first, each group by name. Only a configuration that
// changed is compiled again. Its rules and selectors become a Criteria (criteria.go), which never
// changes.
//
// A Source calls an engine's build function whenever one of its informers or a caller of Notify has
// something new, and swaps the pointer to the snapshot that build returns. Changes that arrive in a
// burst share a snapshot. A request reads the pointer once and works with that snapshot to its end.
// Until a snapshot holds everything that the API had at the start (Source.Synced), requests wait:
// see package ready.
//
// # Configurations without a rule for a request cost it nothing
//
// Whether a Criteria has a rule for a request depends only on the request's Target (target.go):
// operation, resource, subresource, and whether it is in a namespace. Each snapshot has an Index
// (index.go). At the first request with a target, the Index asks the engine for the candidates and
// remembers them. For every later request with that target this is a look-up in a map. The engine
// asks the Resolver about each Criteria:
//
//	index := matching.NewIndex(func(r *matching.Resolver) []candidate {
//		var all []candidate
//		for _, p := range policies {
//			if r.Target.IsPolicy() && !p.static {
//				continue // so that no policy can prevent its own removal
//			}
//			if c := r.Resolve(p.criteria); c != nil {
//				all = append(all, candidate{policy: p, match: c, bindings: …})
//			}
//		}
//		return all
//	})
//	candidates := index.Candidates(matching.TargetOf(a), o.GetEquivalentResourceMapper())
//
// Policies do the same with their bindings, so bindings without a rule for the target cost nothing
// either.
//
// A Candidate is a Criteria that has a rule for the target. Request.Match (request.go) decides the
// rest: the selectors and the resourceNames of policies. Equal selectors are evaluated once per
// request, however many configurations have them. The namespace is looked up once, in the cache and,
// if that lacks it, live.
//
// # Equivalent resources
//
// With matchPolicy Equivalent, a rule for apps/v1 deployments also matches extensions/v1beta1
// deployments. A Match says in which version the object is to be shown: in the request's own if a
// rule names that, otherwise in the version of the first rule that names an equivalent resource.
// Custom resources gain and lose versions. The Index compares what the mapper says, and asks the
// engine again if it has changed.
//
// A Version (version.go) is the request as a Match wants it: the objects converted, and as the JSON
// that expressions read. It belongs to the request (plugin.Shared), so that a policy and a webhook
// that want the same version share the conversion. convert.go has the conversions, describe.go the
// AdmissionRequest.
//
// # Exemptions
//
// Kubernetes doesn't ask webhooks and policies about some requests. The engines leave these out when
// they resolve: see Target.IsConfiguration, IsPolicy and IsReview.
//
// # The second round
//
// Rounds (rounds.go) records which webhooks or policies to call again after the object has changed.
//
// Sources: k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,predicates} and
// k8s.io/apiserver/pkg/admission/plugin/policy/{generic,matching}.
package matching
