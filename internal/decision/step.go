// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

// phases are the names of the phases in the API.
var phases = map[plugin.Phase]string{plugin.Mutating: "Mutate", plugin.Validating: "Validate"}

// newStep returns the API's form of a plugin's step, which has the index among the steps. It has no
// patches yet: newStep appends to changes what becomes the patches of the step and of its calls.
func newStep(s *plugin.Step, index int, values Values, changes []change) (v1alpha1.Step, []change) {
	verdict, _ := plugin.VerdictOf(s.Err)
	step := v1alpha1.Step{Plugin: s.Plugin, Phase: phases[s.Phase], Round: int32(s.Round),
		Verdict: v1alpha1.Verdict(verdict), Duration: metav1.Duration{Duration: s.Duration}}
	secret := secrets{s.Attributes.GetResource().GroupResource(), values}
	about := &v1alpha1.Request{Name: s.Attributes.GetName(), Namespace: s.Attributes.GetNamespace(),
		Resource: s.Attributes.GetResource().Resource, Version: s.Attributes.GetResource().Version}
	if s.Err != nil {
		step.Message = secret.ofPlugin(s.Err.Error(), about)
	}
	if text := secret.ofRefusal(s.Calls); s.Err != nil && text != "" {
		step.Message = text
	}
	// A value that a call copied from a Secret may be in everything that was changed after that.
	hasSecret := false
	room := roomFor(s.Calls)
	for i := range s.Calls {
		c := &s.Calls[i]
		hasSecret = hasSecret || secret.ofCall(c) != ""
		if room[priority(c)] == 0 {
			step.OmittedCalls++
			continue
		}
		room[priority(c)]--
		if c.Changes != nil && s.Phase == plugin.Mutating {
			changes = append(changes, change{c.Changes, index, len(step.Calls), hasSecret})
		}
		if step.Calls == nil {
			step.Calls = make([]v1alpha1.Call, 0, min(len(s.Calls)-i, maxCalls))
		}
		step.Calls = append(step.Calls, newCall(c, secret, about))
	}
	if s.Changes != nil {
		changes = append(changes, change{s.Changes, index, wholeStep, hasSecret})
	}
	return step, changes
}

// priority returns which calls are kept first if there are many: 0 for those that did something or
// have something to say, 1 for those that were nearly made, 2 for all others.
func priority(c *plugin.Call) int {
	switch {
	case c.Verdict == plugin.Refused, c.Verdict == plugin.Failed, c.Changes != nil, len(c.Warnings) > 0,
		c.Verdict == plugin.Admitted && c.Why != "":
		return 0
	case c.Verdict == plugin.Skipped && !strings.Contains(c.Why, "Selector doesn't select "):
		return 1
	}
	return 2
}

// roomFor returns how many calls of each priority are kept.
func roomFor(calls []plugin.Call) (room [3]int) {
	for i := range calls {
		room[priority(&calls[i])]++
	}
	left := maxCalls
	for i := range room {
		room[i] = min(room[i], left)
		left -= room[i]
	}
	return room
}

// newCall returns the API's form of a call, without its patch.
func newCall(c *plugin.Call, secret secrets, about *v1alpha1.Request) v1alpha1.Call {
	call := v1alpha1.Call{Kind: string(c.Kind), Name: c.Name, Configuration: c.Configuration, Binding: c.Binding,
		Param: c.Param, Expression: cut(c.Expression), Reads: cutNames(c.Reads), Backend: cut(c.Backend),
		Verdict: v1alpha1.Verdict(c.Verdict), Code: c.Code, FailedOpen: c.Ignored,
		Why:      secret.ofPlugin(c.Why, about),
		Duration: metav1.Duration{Duration: c.Duration}}
	if hidden := secret.ofReason(c); hidden != "" && c.Why != "" {
		call.Why = hidden
	}
	for _, warning := range c.Warnings[:min(len(c.Warnings), maxWarnings)] {
		hidden := secret.ofCall(c)
		if warning = secret.ofPlugin(warning, about); hidden != "" {
			warning = hidden
		}
		call.Warnings = append(call.Warnings, warning)
	}
	return call
}
