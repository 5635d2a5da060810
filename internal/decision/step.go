// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

// phases are the names of the phases in the API.
var phases = map[plugin.Phase]string{plugin.Mutating: "Mutate", plugin.Validating: "Validate"}

// step holds what a plugin did. Most plugins have nothing to tell, so it is small.
type step struct {
	plugin   string
	verdict  plugin.Verdict
	duration time.Duration
	// details has a message and calls, if there are any.
	details *details
	round   int32
	phase   plugin.Phase
}

type details struct {
	message      string
	calls        []v1alpha1.Call
	omittedCalls int32
}

// message returns the step's message.
func (s *step) message() string {
	if s.details == nil {
		return ""
	}
	return s.details.message
}

// decided returns the API's form of a step, without patches. It shares no memory that may be written.
func (s *step) decided() v1alpha1.Step {
	made := v1alpha1.Step{Plugin: s.plugin, Phase: phases[s.phase], Round: s.round, Verdict: v1alpha1.Verdict(s.verdict),
		Duration: metav1.Duration{Duration: s.duration}}
	if s.details == nil {
		return made
	}
	made.Message, made.OmittedCalls = s.details.message, s.details.omittedCalls
	for i := range s.details.calls {
		made.Calls = append(made.Calls, *s.details.calls[i].DeepCopy())
	}
	return made
}

// newStep returns a plugin's step, which has the index among the steps. It appends to changes what
// becomes the patches of the step and of its calls.
func newStep(s *plugin.Step, index int, values Values, changes []change) (step, []change) {
	made := step{plugin: s.Plugin, phase: s.Phase, round: int32(s.Round), duration: s.Duration}
	made.verdict, _ = plugin.VerdictOf(s.Err)
	if s.Err == nil && len(s.Calls) == 0 {
		if s.Changes != nil {
			changes = append(changes, change{changes: s.Changes, step: index, call: wholeStep})
		}
		return made, changes
	}
	more := &details{}
	made.details = more
	secret := secrets{s.Attributes.GetResource().GroupResource(), values}
	about := &v1alpha1.Request{Name: s.Attributes.GetName(), Namespace: s.Attributes.GetNamespace(),
		Resource: s.Attributes.GetResource().Resource, Version: s.Attributes.GetResource().Version}
	if s.Err != nil {
		more.message = secret.ofPlugin(s.Err.Error(), about)
	}
	if text := secret.ofRefusal(s.Calls); s.Err != nil && text != "" {
		more.message = text
	}
	// A value that a call copied from a Secret may be in everything that was changed after that.
	hasSecret := false
	room := roomFor(s.Calls)
	for i := range s.Calls {
		c := &s.Calls[i]
		hasSecret = hasSecret || secret.ofCall(c) != ""
		if room[priority(c)] == 0 {
			more.omittedCalls++
			continue
		}
		room[priority(c)]--
		if c.Changes != nil && s.Phase == plugin.Mutating {
			changes = append(changes, change{changes: c.Changes, step: index, call: len(more.calls), secret: hasSecret})
		}
		if more.calls == nil {
			more.calls = make([]v1alpha1.Call, 0, min(len(s.Calls)-i, maxCalls))
		}
		more.calls = append(more.calls, newCall(c, secret, about))
	}
	if s.Changes != nil {
		changes = append(changes, change{changes: s.Changes, step: index, call: wholeStep, secret: hasSecret})
	}
	return made, changes
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
