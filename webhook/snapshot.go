package webhook

import "gatehouse.dev/internal/matching"

// snapshot is all webhooks at one time. But for its index, which is filled as requests come, it
// never changes.
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

// candidates are the webhooks with a rule for a target, in order, and those that nearly have one.
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
