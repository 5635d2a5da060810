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

// WarnersOf returns the policies, webhooks and so on that admitted a request and sent its client a warning.
func WarnersOf(d *v1alpha1.Decision) []Policy {
	if d == nil {
		return nil
	}
	return policies(why.Explain(d, nil).Warned)
}

// ChangersOf returns the policies, webhooks and so on that changed a request's object, and the plugin of each
// step that changed it without them.
func ChangersOf(d *v1alpha1.Decision) []Policy {
	if d == nil {
		return nil
	}
	var changers []why.Refusal
	for i := range d.Steps {
		step := &d.Steps[i]
		named := false
		for j := range step.Calls {
			if call := &step.Calls[j]; len(call.Patch) > 0 || call.PatchCut {
				changers, named = append(changers, why.Refusal{Source: why.Source{Plugin: step.Plugin, Call: call}}), true
			}
		}
		if !named && (len(step.Patch) > 0 || step.PatchCut) {
			changers = append(changers, why.Refusal{Source: why.Source{Plugin: step.Plugin}})
		}
	}
	return policies(changers)
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
