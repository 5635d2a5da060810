// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/decision/why"
	"gatehouse.dev/internal/document"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
)

// Print holds options for printing a review.
type Print struct {
	// Changes shows the changed fields of each object, Explain each step of its admission.
	Changes, Explain bool
	// Only selects results by their words, which are among Words; nil prints all. Failed results are
	// always printed, and the summary counts all.
	Only []string
	// Version is the version of the program, for formats that name it.
	Version string
	// Remedies are the plugins' remedies for refused requests, by the plugins' names.
	Remedies map[string]string
}

// Formats are the formats of a printed review, besides text.
var Formats = []string{"json", "yaml", "junit", "sarif", "github", "markdown"}

// Words are the words for the verdict on an object and its pods.
var Words = []string{strings.ToLower(string(v1alpha1.Admitted)), strings.ToLower(string(v1alpha1.Refused)),
	strings.ToLower(string(v1alpha1.Failed))}

// wordColors are the colors of Words on a terminal.
var wordColors = map[string]terminal.Color{Words[0]: terminal.Green, Words[1]: terminal.Red, Words[2]: terminal.Red,
	"note:": terminal.Yellow}

// Write prints a review in a format, one of Formats or empty for text.
func (p Print) Write(w io.Writer, review *Review, format string) error {
	review = p.selectResults(review)
	switch format {
	case "":
		return p.text(w, review)
	case "json", "yaml":
		return document.Write(w, format, review)
	case "junit":
		return p.junit(w, review)
	case "sarif":
		return p.annotations(review).SARIF(w)
	case "github":
		return p.annotations(review).GitHub(w)
	case "markdown":
		return p.markdown(review).Write(w)
	}
	return fmt.Errorf("output format %q: it is one of %s", format, strings.Join(Formats, ", "))
}

// selectResults returns the review with only the results that are to be printed.
func (p Print) selectResults(review *Review) *Review {
	if p.Only == nil {
		return review
	}
	chosen := *review
	chosen.Results = []Result{}
	for i := range review.Results {
		r := &review.Results[i]
		if r.Verdict == v1alpha1.Failed || slices.Contains(p.Only, strings.ToLower(r.word())) {
			chosen.Results = append(chosen.Results, *r)
		}
	}
	return &chosen
}

// text prints a line for each object, and the details below it.
func (p Print) text(out io.Writer, review *Review) error {
	var b strings.Builder
	widest := 0
	for i := range review.Results {
		widest = max(widest, len(terminal.Line(review.Results[i].Object.String())))
	}
	for i := range review.Results {
		r := &review.Results[i]
		fmt.Fprintf(&b, "%-8s  %-*s  %s\n", strings.ToLower(r.word()), widest,
			terminal.Line(r.Object.String()), terminal.Line(r.Source.String()))
		for _, line := range p.details(r) {
			fmt.Fprintf(&b, "          %s\n", strings.ReplaceAll(line, "\n", "\n          "))
		}
	}
	for _, note := range review.Notes {
		fmt.Fprintf(&b, "note: %s\n", strings.ReplaceAll(note, "\n", "\n  "))
	}
	s := review.Summary
	fmt.Fprintf(&b, "%d admitted, %d refused, %d failed\n", s.Admitted, s.Refused, s.Failed)
	return terminal.Write(out, b.String(), terminal.Palette{Begin: wordColors,
		Indented: map[string]terminal.Color{"warning:": terminal.Yellow}, Lines: terminal.Diff, Bold: review.pluginNames()})
}

// pluginNames returns the names of the plugins that changed or refused something.
func (r *Review) pluginNames() []string {
	var names []string
	add := func(d *v1alpha1.Decision) {
		if d != nil {
			names = append(append(names, d.By), d.ChangedBy...)
		}
	}
	for i := range r.Results {
		add(r.Results[i].Decision)
		for _, pods := range r.Results[i].Pods {
			add(pods.Decision)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// word returns the word for the verdict on the object and its pods.
func (r *Result) word() string {
	if r.Verdict == v1alpha1.Admitted && r.refused() {
		return string(v1alpha1.Refused)
	}
	return string(r.Verdict)
}

// details returns the lines below an object.
func (p Print) details(r *Result) []string {
	var lines []string
	if r.Message != "" || len(r.Unknown) > 0 {
		lines = append(lines, r.why())
		for _, cause := range r.Because {
			lines = append(lines, "because: "+cause)
		}
		for _, remedy := range p.ownRemedies(r) {
			lines = append(lines, "to pass: "+remedy)
		}
	}
	if d := r.Decision; d != nil && len(d.ChangedBy) > 0 && !p.Changes && r.Verdict == v1alpha1.Admitted {
		lines = append(lines, "changed by "+strings.Join(d.ChangedBy, ", "))
	}
	for _, webhook := range webhooksNotAsked(r.Decision) {
		lines = append(lines, "not asked: "+webhook)
	}
	for _, warning := range r.Warnings {
		lines = append(lines, "warning: "+warning)
	}
	for _, pods := range r.Pods {
		if pods.Why != "" {
			lines = append(lines, "no pods: "+pods.Why)
		}
		for _, webhook := range pods.NotAsked {
			lines = append(lines, "not asked about its pods: "+webhook)
		}
		if pods.Admitted < pods.Wanted {
			lines = append(lines, r.wouldStart(pods))
			for _, cause := range pods.Because {
				lines = append(lines, "because: "+cause)
			}
			for _, remedy := range p.remedies(pods.Decision) {
				lines = append(lines, "to pass: "+remedy)
			}
		}
	}
	if r.Decision != nil && p.Changes {
		lines = append(lines, changes(r.Decision, r.Sent, "changed")...)
		for _, pods := range r.Pods {
			if pods.first != nil {
				lines = append(lines, changes(pods.first, pods.firstSent, "changed in its pods")...)
			}
		}
	}
	if r.Decision != nil && p.Explain {
		lines = append(lines, steps(r.Decision)...)
		for _, pods := range r.Pods {
			if pods.Decision != nil {
				lines = append(lines, "of "+pods.Refused.String()+":")
				lines = append(lines, steps(pods.Decision)...)
			}
		}
	}
	return lines
}

// why returns the reason why an object isn't admitted.
func (r *Result) why() string {
	text := byPlugin(r.Decision) + r.Message
	if len(r.Unknown) == 0 {
		return text
	}
	more, otherwise := "", "admitted"
	if n := len(r.Unknown) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more, which the notes name)", n)
	}
	if text != "" {
		otherwise = "refused: " + text
	}
	return fmt.Sprintf("the cluster is known in part only: %s%s; with --allow-incomplete it is %s", r.Unknown[0], more,
		otherwise)
}

// findCauses sets the changes that the reasons are about.
func (r *Result) findCauses() {
	if r.Because = causesOf(r.Decision); r.RefusedNamespace != "" {
		r.Because = append(r.Because, r.RefusedNamespace)
	}
	for i := range r.Pods {
		r.Pods[i].Because = causesOf(r.Pods[i].Decision)
	}
}

// causesOf returns the changes that a refusal is about, in the words of `gatehouse why`.
func causesOf(d *v1alpha1.Decision) []string {
	if d == nil {
		return nil
	}
	var causes []string
	for _, cause := range why.Explain(d, nil).Causes {
		causes = append(causes, cause.String())
	}
	return causes
}

// remedies returns what would have to change for a request to pass, in the words of `gatehouse
// why`.
func (p Print) remedies(d *v1alpha1.Decision) []string {
	if d == nil || d.Verdict == v1alpha1.Admitted {
		return nil
	}
	var lines []string
	for _, remedy := range why.Explain(d, p.Remedies).Remedies {
		lines = append(lines, remedy.Words)
	}
	return lines
}

// ownRemedies returns what would have to change for an object to pass, apart from its pods.
func (p Print) ownRemedies(r *Result) []string {
	switch {
	case r.RefusedNamespace != "":
		return []string{"Have its Namespace admitted first."}
	case len(r.UnknownFields) > 0:
		return []string{r.unknownFieldsRemedy()}
	}
	return p.remedies(r.Decision)
}

// webhooksNotAsked returns the webhooks, and other backends of plugins, that a cluster would ask.
func webhooksNotAsked(d *v1alpha1.Decision) []string {
	if d == nil {
		return nil
	}
	var lines []string
	for i := range d.Steps {
		for _, c := range d.Steps[i].Calls {
			line := webhookText(c.Name, c.Configuration) + c.Backend
			if c.Kind == string(plugin.Backend) {
				line = fmt.Sprintf("%s%s: %s", c.Name, atBackend(c.Backend), c.Why)
			}
			if isNotAsked(&c) && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// webhookText returns the beginning of the text about a webhook, before its backend.
func webhookText(name, configuration string) string {
	return fmt.Sprintf("webhook %s of %s at ", name, configuration)
}

// isNotAsked reports whether a call says that a cluster would ask a backend, and that it wasn't asked.
func isNotAsked(c *v1alpha1.Call) bool {
	return c.Verdict == v1alpha1.Skipped && strings.HasPrefix(c.Why, plugin.WouldBeAsked)
}

// atBackend returns " at" with a backend's URL, or "" if it has none.
func atBackend(backend string) string {
	if backend == "" {
		return ""
	}
	return " at " + backend
}

// byPlugin returns "by" with the plugin that refused, or "".
func byPlugin(d *v1alpha1.Decision) string {
	if d == nil || d.By == "" {
		return ""
	}
	return "by " + d.By + ": "
}

// wouldStart returns how many of an object's pods would start, and the reason if not all would.
func (r *Result) wouldStart(pods Pods) string {
	if r.Object.Kind == podKind.Kind {
		return strings.Replace(pods.String(), "its pod would", "it would", 1)
	}
	return pods.String()
}

// String returns how many pods would start, and the reason if not all would.
func (p Pods) String() string {
	text := fmt.Sprintf("%d of %s would start", p.Admitted, count.Of(p.Wanted, "pod"))
	if p.Admitted == p.Wanted {
		return text
	}
	if p.Admitted == 0 {
		text = fmt.Sprintf("none of %d pods would start", p.Wanted)
		if p.Wanted == 1 {
			text = "its pod would not start"
		}
	} else {
		text += ", then"
	}
	return text + ": " + byPlugin(p.Decision) + p.Message
}
