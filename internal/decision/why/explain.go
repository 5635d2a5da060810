// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// An Explanation is a decision, sorted for printing.
type Explanation struct {
	Decision *v1alpha1.Decision
	// Refusals have the plugins, webhooks and so on that refused the request or failed it. There
	// are none if the API itself refused it.
	Refusals []Refusal
	// Remedies say what would have to change for the request to pass.
	Remedies []Remedy
	// Changes are the fields that differ from what was sent, in the order in which they were set.
	Changes []Change
	// Causes are the changes that the answer's message is about.
	Causes []Cause
	// LetPass has the webhooks and policies that failed or were violated, and refused nothing.
	LetPass []Refusal
	// Warned has the warnings of calls that admitted the request.
	Warned []Refusal
	// NotAsked has the webhooks and policies that were skipped although they have a rule for the
	// request, or nearly have one. The nearest misses come first.
	NotAsked []Refusal
	// Dropped has the webhooks and policies that set fields that the object's kind doesn't have.
	Dropped []Refusal
	// Omitted is the number of calls that the decision leaves out. They admitted the request or
	// were skipped.
	Omitted int
}

// A Refusal is a call or a plugin with the reason for what it did: a refusal, a failure, a warning
// or a skip.
type Refusal struct {
	Source
	// Why is the reason, in its own words.
	Why string
}

// A Source is the plugin, or the webhook, policy or other call within it, that did something.
type Source struct {
	Plugin string
	// Phase is Mutate or Validate.
	Phase string
	// Call is nil for the plugin itself.
	Call *v1alpha1.Call
}

// Explain explains a decision. remedies are the remedies of plugins, by the plugins' names.
func Explain(d *v1alpha1.Decision, remedies map[string]string) *Explanation {
	e := &Explanation{Decision: d, Changes: changes(d)}
	for i := range d.Steps {
		step := &d.Steps[i]
		e.Omitted += int(step.OmittedCalls)
		refused := step.Verdict != v1alpha1.Admitted
		named := false
		for j := range step.Calls {
			call := &step.Calls[j]
			r := Refusal{Source{step.Plugin, step.Phase, call}, call.Why}
			switch {
			case call.Verdict == v1alpha1.Admitted:
				for _, text := range call.Warnings {
					e.Warned = append(e.Warned, Refusal{r.Source, text})
				}
				switch {
				case call.Why == "" || len(call.Warnings) > 0 && call.Kind == policy:
				case step.Phase == "Mutate" && (call.Kind == webhook || call.Kind == policy):
					e.Dropped = append(e.Dropped, r)
				case call.Kind == policy:
					e.LetPass = append(e.LetPass, r)
				}
			case call.Verdict == v1alpha1.Skipped:
				e.NotAsked = append(e.NotAsked, r)
			case call.FailedOpen || !refused:
				e.LetPass = append(e.LetPass, r)
			default:
				e.Refusals, named = append(e.Refusals, r), true
			}
		}
		if refused && !named {
			e.Refusals = append(e.Refusals, Refusal{Source{step.Plugin, step.Phase, nil}, step.Message})
		}
	}
	slices.SortStableFunc(e.NotAsked, func(a, b Refusal) int { return distance(a.Why) - distance(b.Why) })
	if d.Verdict == v1alpha1.Admitted {
		return e
	}
	if len(e.Refusals) == 0 && d.By != "" {
		e.Refusals = []Refusal{{Source{Plugin: d.By}, ""}}
	}
	e.Causes = e.findCauses()
	e.Remedies = e.remedies(remedies)
	return e
}

// distance returns how far a webhook or policy was from being called, for the reason of its skip.
// The order is that of the checks from the last to the first: a false match condition is nearer
// than a namespaceSelector that doesn't match.
func distance(why string) int {
	switch {
	case strings.HasPrefix(why, "match condition"):
		return 1
	case strings.HasPrefix(why, "objectSelector"):
		return 2
	case strings.HasPrefix(why, "namespaceSelector"):
		return 3
	}
	return 0
}
