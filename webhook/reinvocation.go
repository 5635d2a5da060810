// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import "gatehouse.dev/internal/matching"

// rounds holds what the second round of the mutating phase has to know of the first.
type rounds struct {
	// candidates are the webhooks of the first round. The second uses the same snapshot.
	candidates []candidate
	// Rounds knows the webhooks with reinvocationPolicy IfNeeded by their uid.
	matching.Rounds[string]
}
