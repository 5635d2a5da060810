// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/terminal"
)

// A Printer writes explanations as text for a terminal.
type Printer struct {
	// Width is the width of the terminal in columns.
	Width int
	// Color paints the verdicts.
	Color bool
	// Now is the time for ages.
	Now time.Time
	// Remedies are the remedies of plugins, by the plugins' names.
	Remedies map[string]string

	// whole reports whether all changes of a refused request are listed.
	whole bool
	out   strings.Builder
}

// Found returns the text about what was found of an object. limit is the limit of Entries.
func (p *Printer) Found(f *Found, limit int) string {
	p.out.Reset()
	title := f.Resource.String() + "/" + f.Name
	if f.Namespace != "" {
		title += " in namespace " + f.Namespace
	}
	if f.Gone && isRefusedCreation(f.Decisions) {
		title += " (not stored)"
	} else if f.Gone {
		title += " (not found)"
	}
	fmt.Fprintln(&p.out, p.paint(terminal.Bold, title))
	if f.Unreadable != "" {
		p.wrap("", "It can't be read: "+f.Unreadable)
	}
	p.deletion(f)
	entries, omitted := Entries(f.Decisions, limit, p.Remedies)
	p.dependents(f)
	for i := range entries {
		p.out.WriteByte('\n')
		p.entry(&entries[i])
	}
	if omitted > 0 {
		fmt.Fprintf(&p.out, "\n%d more (--limit=0 shows all).\n", omitted)
	}
	created := slices.ContainsFunc(f.Decisions, func(d v1alpha1.Decision) bool { return isCreation(&d) })
	if f.Object != nil && !created {
		p.past(f)
	}
	return p.out.String()
}

// dependents writes what happened to the requests of the object's controllers.
func (p *Printer) dependents(f *Found) {
	refused, made := Dependents(f.Dependents, p.Remedies)
	for i := range refused {
		a := &refused[i]
		by := "the API"
		if a.Decision.By != "" {
			by = a.Decision.By
		}
		attempts := "1 attempt"
		if a.Times > 1 {
			attempts = fmt.Sprintf("%d attempts", a.Times)
		}
		verb := "was"
		if a.Times > 1 {
			verb = "were"
		}
		p.out.WriteByte('\n')
		p.wrap("", fmt.Sprintf("%s to create %s for %s %s %s refused by %s. The last one:", attempts,
			a.Decision.Request.Resource, a.Owner.Kind, a.Owner.Name, verb, by))
		one := a.Entry
		one.Times = 1
		p.entry(&one)
	}
	if len(made) > 0 {
		p.out.WriteByte('\n')
		for _, resource := range slices.Sorted(maps.Keys(made)) {
			fmt.Fprintf(&p.out, "Made for it, and admitted: %s (%d)\n", resource, made[resource])
		}
	}
	if len(f.Dependents) == 0 && waitsForController(f) {
		p.out.WriteByte('\n')
		p.wrap("", "No controller has looked at it yet, so nothing was asked for in its name. The controllers of "+
			"workloads are kube-controller-manager's; is one running?")
	}
}

// waitsForController reports whether a controller makes other objects for the object, and hasn't
// seen it yet.
func waitsForController(f *Found) bool {
	if f.Object == nil || f.Resource.Group != "apps" {
		return false
	}
	_, specified := f.Object.Object["spec"].(map[string]any)["template"]
	status, _ := f.Object.Object["status"].(map[string]any)
	return specified && status["observedGeneration"] == nil
}

// Decision returns the text about one decision.
func (p *Printer) Decision(d *v1alpha1.Decision) string {
	p.out.Reset()
	title := decision.Object(&d.Request)
	if d.Request.Namespace != "" {
		title += " in namespace " + d.Request.Namespace
	}
	fmt.Fprintf(&p.out, "%s\n\n", p.paint(terminal.Bold, title))
	p.whole = true
	p.entry(&Entry{Explain(d, p.Remedies), 1, d.Time.Time})
	return p.out.String()
}

// entry writes an entry.
func (p *Printer) entry(e *Entry) {
	d := e.Decision
	color, outcome := terminal.Red, v1alpha1.Outcome(d)
	switch {
	case d.Verdict == v1alpha1.Admitted:
		color = terminal.Green
	case v1alpha1.Everyday(d): // no plugin refused it
		color = terminal.Bold
	}
	what := d.Request.Operation
	if d.Request.Subresource != "" {
		what += " of " + d.Request.Subresource
	}
	if d.Request.DryRun {
		what += ", a dry run,"
	}
	when := p.age(d.Time.Time) + " ago"
	if e.Times > 1 {
		when = fmt.Sprintf("%d times, the last %s, the first %s ago", e.Times, when, p.age(e.First))
	}
	by := d.Request.User.Username
	if agent, _, _ := strings.Cut(d.Request.UserAgent, " "); agent != "" {
		by += " with " + agent
	}
	at := max(label, len(outcome)+1)
	p.out.WriteString(p.paint(color, fmt.Sprintf("%-*s", at, outcome)))
	p.wrapFrom(at, label, fmt.Sprintf("%s %s by %s", what, when, by))
	if d.Verdict != v1alpha1.Admitted {
		p.answer(d)
	}
	p.refusals(e)
	for i := range e.LetPass {
		r := &e.LetPass[i]
		p.sourceItem(firstLabel(i, "let pass"), fmt.Sprintf("%s %s", r.Source, letPassText(r)), r.Plugin)
	}
	for i := range e.Warned {
		w := &e.Warned[i]
		p.sourceItem(firstLabel(i, "warned"), fmt.Sprintf("%s: %s", w.Source, w.Why), w.Plugin)
		if w.Call.Expression != "" {
			p.item("", w.Call.Expression)
		}
	}
	for i := range e.Dropped {
		r := &e.Dropped[i]
		p.sourceItem(firstLabel(i, "dropped"), fmt.Sprintf("%s: %s", r.Source, r.Why), r.Plugin)
	}
	shown := len(e.NotAsked)
	if !p.whole {
		shown = min(shown, maxNotAsked)
	}
	for i := range shown {
		p.sourceItem(firstLabel(i, "not asked"), fmt.Sprintf("%s: %s", e.NotAsked[i].Source, e.NotAsked[i].Why),
			e.NotAsked[i].Plugin)
	}
	if more := len(e.NotAsked) - shown; more > 0 {
		p.item("", fmt.Sprintf("and %d more (gatehouse why %s names them)", more, e.Decision.Name))
	}
	if e.Omitted > 0 && p.whole {
		p.item("omitted", fmt.Sprintf("%d more that admitted it or weren't asked, as one request keeps no more of them",
			e.Omitted))
	}
	p.changes(e)
	took := fmt.Sprintf("%s, audit ID %s", decision.Took(d.Duration.Duration), d.Name)
	if server := d.Labels[v1alpha1.ServerLabel]; server != "" {
		took += ", server " + server
	}
	p.item("took", took)
}

// maxNotAsked is the number of skipped webhooks and policies that are named.
const maxNotAsked = 5

// answer writes the answer to the client.
func (p *Printer) answer(d *v1alpha1.Decision) {
	if d.Code == 0 {
		p.item("answer", "none")
		return
	}
	text := fmt.Sprintf("%d", d.Code)
	if d.Reason != metav1.StatusReasonUnknown {
		text += " " + string(d.Reason)
	}
	if d.Message != "" {
		text += ": " + d.Message
	}
	p.item("answer", text)
}

// refusals writes the refusals, the causes and the remedies.
func (p *Printer) refusals(e *Entry) {
	for i := range e.Refusals {
		r := &e.Refusals[i]
		text := r.Source.String()
		if more := newWords(e.Decision.Message, r.Why); more != "" {
			text += ": " + more
		}
		p.sourceItem(firstLabel(i, "by"), text, r.Plugin)
		if r.Call != nil && r.Call.Expression != "" {
			p.item("", r.Call.Expression)
		}
	}
	for i, c := range e.Causes {
		p.item(firstLabel(i, "because"), c.String())
	}
	for i, r := range e.Remedies {
		p.item(firstLabel(i, "to pass"), r.Words)
		if r.Command != "" {
			p.item("", r.Command)
		}
	}
}

// newWords returns the part of a reason that the message doesn't have: nothing, or the text after
// the words that both have.
func newWords(message, why string) string {
	for end := len(why); end > len(why)/2; end-- {
		if end < len(why) && inWord(why[end-1]) && inWord(why[end]) {
			continue
		}
		if strings.Contains(message, why[:end]) {
			return strings.TrimLeft(why[end:], " :;,")
		}
	}
	return why
}

// inWord reports whether a byte is part of a word.
func inWord(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= utf8.RuneSelf
}

// letPassText returns the words about a call that refused nothing.
func letPassText(r *Refusal) string {
	switch {
	case r.Call.Verdict == v1alpha1.Failed && r.Call.Kind == webhook:
		return "failed, and its failurePolicy is Ignore: " + r.Why
	case r.Call.Verdict == v1alpha1.Failed:
		return "could not be evaluated, and that was ignored: " + r.Why
	}
	return "was violated: " + r.Why
}

// changes writes the changed fields, by what set them.
func (p *Printer) changes(e *Entry) {
	if len(e.Changes) == 0 {
		return
	}
	if e.Decision.Verdict != v1alpha1.Admitted && !p.whole {
		fields := "1 field"
		if n := len(e.Changes); n > 1 {
			fields = fmt.Sprintf("%d fields", n)
		}
		p.item("changed", fmt.Sprintf("%s before, by %s (gatehouse why %s names them)", fields,
			strings.Join(e.Decision.ChangedBy, ", "), e.Decision.Name))
		return
	}
	width := 0
	for _, c := range e.Changes {
		width = max(width, utf8.RuneCountInString(c.Field))
	}
	width = min(width, p.Width/2)
	by := ""
	for i, c := range e.Changes {
		if source := c.Source.String(); source != by || i == 0 {
			by = source
			p.sourceItem(firstLabel(i, "changed"), "by "+by, c.Source.Plugin)
		}
		value := c.Value
		switch {
		case c.Removed:
			value = "(removed)"
		case c.Again:
			value += " (and changed again below)"
		}
		line := fmt.Sprintf("%*s%-*s  %s", label+2, "", width, c.Field, value)
		fmt.Fprintln(&p.out, truncated(terminal.Line(line), p.Width))
	}
}

// past writes what the managers of the object's fields, and events, show of requests that aren't
// recorded.
func (p *Printer) past(f *Found) {
	p.out.WriteByte('\n')
	p.wrap("", "Its creation isn't recorded, or no longer. What its managedFields tell (what plugins and webhooks set "+
		"counts as the client's):")
	for _, m := range Managers(f.Object) {
		when := ""
		if !m.Time.IsZero() {
			when = ", " + p.age(m.Time) + " ago"
		}
		what := strings.ToLower(m.Operation)
		if m.Subresource != "" {
			what += " of " + m.Subresource
		}
		fmt.Fprintf(&p.out, "  %s (%s%s)\n", terminal.Line(m.Name), terminal.Line(what), when)
		shown := m.Fields[:min(len(m.Fields), maxFields)]
		text := strings.Join(shown, ", ")
		if more := len(m.Fields) - len(shown); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		p.wrap("    ", text)
	}
	if len(f.Events) == 0 {
		return
	}
	fmt.Fprintf(&p.out, "\nEvents:\n")
	for i := range f.Events[:min(len(f.Events), maxEvents)] {
		event := &f.Events[i]
		p.wrap("  ", fmt.Sprintf("%s ago, %s %s, about %s %s: %s", p.age(lastTime(event)), event.Type, event.Reason,
			event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message))
	}
}

const (
	maxFields = 20 // of a manager
	maxEvents = 5
)
