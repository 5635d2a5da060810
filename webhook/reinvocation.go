package webhook

import "gatehouse.dev/internal/matching"

// rounds are what the second round of the mutating phase has to know of the first.
type rounds struct {
	// candidates are those of the first round: the second works with the same snapshot.
	candidates []candidate
	// Those with reinvocationPolicy IfNeeded are known by their uid.
	matching.Rounds[string]
}
