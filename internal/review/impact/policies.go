// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"slices"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/why"
)

// PoliciesOf returns the policies, webhooks and so on that refused a request or failed it, and the plugin of
// each step that names none. It returns nil for a request that was admitted, or that no plugin refused.
func PoliciesOf(d *v1alpha1.Decision) []Policy {
	if d == nil || d.Verdict == v1alpha1.Admitted {
		return nil
	}
	return policies(why.Explain(d, nil).Refusals)
}

// WarnersBeside returns the policies, webhooks and so on that sent the client of an admitted request a warning that
// another decision doesn't have. other may be nil.
func WarnersBeside(d, other *v1alpha1.Decision) []Policy {
	theirs := warned(other)
	return policies(slices.DeleteFunc(warned(d), func(r why.Refusal) bool {
		return slices.ContainsFunc(theirs, func(o why.Refusal) bool {
			return o.Why == r.Why && slices.Equal(policies([]why.Refusal{o}), policies([]why.Refusal{r}))
		})
	}))
}

func warned(d *v1alpha1.Decision) []why.Refusal {
	if d == nil {
		return nil
	}
	return why.Explain(d, nil).Warned
}

// policies returns the policies of parts of a decision, each once.
func policies(parts []why.Refusal) []Policy {
	var all []Policy
	for i := range parts {
		p := Policy{Plugin: parts[i].Plugin}
		if call := parts[i].Call; call != nil {
			p.Kind, p.Name, p.Binding, p.Expression = call.Kind, call.Name, call.Binding, call.Expression
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}
