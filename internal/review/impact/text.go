// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"fmt"
	"io"
	"math"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"gatehouse.dev/internal/terminal"
)

// maxShownRows is the number of rows that the text has of a policy.
const maxShownRows = 20

// colors are the colors of the words that begin lines.
var colors = terminal.Palette{Begin: map[string]terminal.Color{"refused": terminal.Red, "admitted": terminal.Green,
	"changed": terminal.Yellow, "warned": terminal.Yellow, "interrupted:": terminal.Red,
	"error:": terminal.Red}}

// words are the words for effects.
var words = [effects]string{refuses: "refused", admits: "admitted", changes: "changed", warns: "warned"}

// text writes the report for people: the counts, the differences by policy, and the notes. If everything is to be
// shown, a line for each result comes before the notes.
func (r *Report) text(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.Headline() + "\n")
	if updates := r.summary.UpdatesRefused; updates > 0 {
		fmt.Fprintf(&b, "of the refused, %s also when updated, %s only when created, or when their pods are\n", number(updates),
			number(r.summary.Refused-updates))
	}
	if r.summary.Interrupted {
		b.WriteString("interrupted: this is about what was judged until then\n")
	}
	for _, p := range r.problems {
		fmt.Fprintf(&b, "error: %s\n", strings.ReplaceAll(p.String(), "\n", "\n  "))
	}
	r.unjudged(&b)
	for _, g := range r.groups.sorted() {
		r.group(&b, g)
	}
	for e, n := range r.groups.others {
		if n > 0 {
			fmt.Fprintf(&b, "\n%-8s  %s by further policies; see -o json\n", words[e], r.count(n))
		}
	}
	if err := terminal.Write(w, b.String(), colors); err != nil {
		return err
	}
	if r.options.ShowAll {
		if err := r.lines(w); err != nil {
			return err
		}
	}
	var notes strings.Builder
	for i, note := range r.notes {
		if i == 0 {
			notes.WriteString("\n")
		}
		fmt.Fprintf(&notes, "note: %s\n", strings.ReplaceAll(note, "\n", "\n  "))
	}
	return terminal.Write(w, notes.String(), colors)
}

// Headline returns the counts in a sentence.
func (r *Report) Headline() string {
	s := &r.summary
	var b strings.Builder
	b.WriteString("of " + r.count(s.Writes))
	if s.Beyond > 0 {
		fmt.Fprintf(&b, " that the candidate can act on (of %s)", number(s.Writes+s.Beyond))
	}
	if s.First != nil && s.Last != nil {
		fmt.Fprintf(&b, " between %s and %s UTC", clock(s.First), clock(s.Last))
	}
	fmt.Fprintf(&b, ", %s judged", number(s.Judged))
	if s.Writes > 0 { // It is rounded down: 100 % are all of them.
		fmt.Fprintf(&b, " (%.1f %%)", math.Floor(10*s.share())/10)
	}
	b.WriteString(": ")
	be, get := "be", "get"
	if r.kind == Replay {
		be, get = "have been", "have got"
		fmt.Fprintf(&b, "%s would have been refused that %s not, %s would have been admitted that %s refused",
			number(s.Refused), were(s.Refused), number(s.Admitted), were(s.Admitted))
	} else {
		fmt.Fprintf(&b, "%s would be refused, %s would be admitted that %s refused now", number(s.Refused),
			number(s.Admitted), are(s.Admitted))
	}
	if s.Changed > 0 {
		fmt.Fprintf(&b, "; %s would %s changed", number(s.Changed), be)
	}
	if s.Warned > 0 {
		fmt.Fprintf(&b, "; %s would only %s a warning", number(s.Warned), get)
	}
	if r.options.Baseline != nil || s.Known > 0 {
		fmt.Fprintf(&b, "; %s in the baseline", count(s.Known, "other difference")+" "+are(s.Known))
	}
	return b.String()
}

// unjudged writes what was not judged, by reason.
func (r *Report) unjudged(b *strings.Builder) {
	if len(r.summary.NotJudged) == 0 {
		return
	}
	n := r.summary.Writes - r.summary.Judged
	fmt.Fprintf(b, "\nnot judged: %s\n", number(n))
	t := &table{}
	for _, reason := range r.summary.NotJudged {
		t.row(number(reason.Count), reason.Reason, reason.Description)
	}
	t.write(b)
}

// group writes the differences that a policy makes with an effect.
func (r *Report) group(b *strings.Builder, g *group) {
	fmt.Fprintf(b, "\n%-8s  %s by %s\n", words[g.effect], r.count(g.count), g.policy.describe())
	detail := func(label, text string) {
		if text != "" {
			fmt.Fprintf(b, "          %s: %s\n", label, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n            "))
		}
	}
	label := map[effect]string{admits: "refused before", warns: "warning"}[g.effect]
	if label == "" {
		label = "message"
	}
	if g.effect == refuses {
		detail("violated", g.policy.Expression)
	}
	detail(label, g.message)
	for _, change := range g.changes {
		fmt.Fprintf(b, "          %s\n", strings.ReplaceAll(change, "\n", " "))
	}
	for _, remedy := range g.remedies {
		detail("to pass", remedy)
	}
	t := &table{}
	rows := g.sortedRows()
	shown, message := 0, g.alike
	for _, like := range rows[:min(len(rows), maxShownRows)] {
		if like.rowKey.message != message {
			t.write(b)
			t = &table{}
			detail(label, like.message)
			message = like.rowKey.message
		}
		shown += like.count
		r.row(t, like)
	}
	t.write(b)
	if n := g.count - shown; n > 0 {
		fmt.Fprintf(b, "          and %s more, %s, or with other messages; see -o json\n", number(n), map[string]string{
			Replay: "of other users, namespaces and user agents", Audit: "of other namespaces and kinds"}[r.kind])
	}
}

// row writes differences that are alike.
func (r *Report) row(t *table, like *row) {
	t.row(r.cells(like)...)
	if r.kind == Replay {
		t.below("for example " + like.example)
	}
}

// cells returns what there is to say of differences that are alike, their number first.
func (r *Report) cells(like *row) []string {
	namespace := "no namespace"
	if like.namespace != "" {
		namespace = "namespace " + like.namespace
	}
	if r.kind == Replay {
		user := like.user
		if namespace, name, err := serviceaccount.SplitUsername(user); err == nil {
			user = "ServiceAccount " + namespace + "/" + name
		}
		return []string{number(like.count), user, namespace, like.userAgent, period(like.first, like.last)}
	}
	what := like.kind
	switch {
	case like.owned == like.count:
		what = "owned by " + what
	case like.owned > 0:
		what += ", or owned by one"
	}
	names := strings.Join(like.names, ", ")
	if n := like.named - len(like.names); n > 0 {
		names += " and " + number(n) + " more"
	}
	return []string{number(like.count), namespace, what, like.operations, names}
}

// lines writes a line for each result.
func (r *Report) lines(w io.Writer) error {
	title := "\nall requests:\n"
	if r.kind == Audit {
		title = "\nall objects:\n"
	}
	if _, err := io.WriteString(w, title); err != nil {
		return err
	}
	for result, err := range r.results.results() {
		if err != nil {
			return err
		}
		word, text := result.Outcome(), result.request()
		if result.Beyond {
			text += ": the candidate can't act on it"
		}
		if r.kind == Audit {
			text = result.Object.String() + at(result.Source)
		}
		for _, detail := range []string{result.Unjudged, map[bool]string{true: "in the baseline"}[result.Known]} {
			if detail != "" {
				text += ": " + detail
			}
		}
		line := fmt.Sprintf("%-10s  %s\n", word, terminal.Line(text))
		if err := terminal.Write(w, line, colors); err != nil {
			return err
		}
	}
	return nil
}

// request returns the request of a result, in words.
func (r *Result) request() string {
	text := r.Request.Operation + " " + r.Object.String()
	if r.Request.Subresource != "" {
		text += " (" + r.Request.Subresource + ")"
	}
	if r.Source == nil && r.AuditID != "" {
		return text + ", audit ID " + r.AuditID
	}
	return text + at(r.Source)
}

// at returns " at" with a place, or "" if it isn't known.
func at(s *Source) string {
	switch {
	case s == nil:
		return ""
	case s.Line == 0:
		return " at " + s.File
	}
	return fmt.Sprintf(" at %s:%d", s.File, s.Line)
}

// describe returns the policy with its plugin and binding.
func (p *Policy) describe() string {
	switch {
	case p.Plugin == "":
		return "the API itself"
	case p.Name == "" || p.Name == p.Plugin:
		return p.Plugin
	case p.Binding == "":
		return fmt.Sprintf("%s (%s)", p.Name, p.Plugin)
	}
	return fmt.Sprintf("%s (%s, binding %s)", p.Name, p.Plugin, p.Binding)
}

// count returns a number of the report's writes or objects.
func (r *Report) count(n int) string {
	return count(n, map[string]string{Replay: "write", Audit: "object"}[r.kind])
}
