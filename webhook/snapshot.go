// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import "gatehouse.dev/internal/matching"

// snapshot holds all webhooks at one time. Except for its index, which requests fill, it never
// changes.
type snapshot struct {
	// hooks are in the order in which they are called: those of manifests first, then by name of
	// their configuration.
	hooks []*hook
	index *matching.Index[candidate]
}

// candidate is a webhook that has a rule for a request, or nearly has one.
type candidate struct {
	*hook
	// index is the webhook's position in the snapshot.
	index int
	match *matching.Candidate
}

func newSnapshot(hooks []*hook) *snapshot {
	s := &snapshot{hooks: hooks}
	s.index = matching.NewIndex(s.candidates)
	return s
}

// candidates returns the webhooks that have a rule for a target, or nearly have one, in order.
func (s *snapshot) candidates(r *matching.Resolver) []candidate {
	var candidates []candidate
	missed := 0
	for i, h := range s.hooks {
		var match *matching.Candidate
		if r.Target.IsConfiguration() && !h.static {
			match = r.ResolveExempt(h.criteria)
		} else {
			match = r.ResolveNearest(h.criteria)
		}
		if match != nil && match.NeverMatches() {
			missed++
		}
		if match != nil && (!match.NeverMatches() || missed <= matching.MaxNearMisses) {
			candidates = append(candidates, candidate{h, i, match})
		}
	}
	return candidates
}
