// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gatehouse.dev/internal/document"
	"gatehouse.dev/internal/terminal"
)

// ComparisonFormats are the formats of a printed comparison, besides text.
var ComparisonFormats = []string{"json", "yaml"}

// changeColors are the colors of changes on a terminal.
var changeColors = map[string]terminal.Color{"failed": terminal.Red, "unserved": terminal.Red, "refused": terminal.Red,
	"served": terminal.Green, "admitted": terminal.Green, "changed": terminal.Yellow, "warned": terminal.Yellow}

// Write prints a comparison in a format, one of ComparisonFormats or empty for text.
func (c *Comparison) Write(w io.Writer, format string) error {
	switch format {
	case "":
		return terminal.Write(w, c.text(), terminal.Palette{Begin: changeColors, Lines: terminal.Diff})
	case "json", "yaml":
		return document.Write(w, format, c)
	}
	return fmt.Errorf("output format %q: it is one of %s", format, strings.Join(ComparisonFormats, ", "))
}

// text returns a line for each object that changes, and the differences below it.
func (c *Comparison) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- Kubernetes %s\n+ Kubernetes %s\n", c.From, c.To)
	for _, line := range c.Plugins.lines("plugin ") {
		b.WriteString(line + "\n")
	}
	widest := 0
	for i := range c.Objects {
		widest = max(widest, len(terminal.Line(c.Objects[i].Object.String())))
	}
	for i := range c.Objects {
		o := &c.Objects[i]
		fmt.Fprintf(&b, "%-8s  %-*s  %s\n", strings.ToLower(string(o.Change)), widest, terminal.Line(o.Object.String()),
			terminal.Line(o.Source.String()))
		for _, line := range o.lines() {
			fmt.Fprintf(&b, "          %s\n", strings.ReplaceAll(line, "\n", "\n            "))
		}
	}
	for _, note := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", strings.ReplaceAll(note, "\n", "\n  "))
	}
	fmt.Fprintf(&b, "%d changed, %d unchanged, %d failed\n", c.Summary.Changed, c.Summary.Unchanged, c.Summary.Failed)
	return b.String()
}

// lines returns the differences of an object, as a diff.
func (o *ObjectChange) lines() []string {
	var lines []string
	if o.From != o.To {
		lines = append(lines, "- "+o.From.String(), "+ "+o.To.String())
	} else if o.Change == ChangeFailed {
		lines = append(lines, o.From.String())
	}
	for _, f := range o.Fields {
		if !f.Added {
			lines = append(lines, fmt.Sprintf("- %s: %s", f.Field, shortJSON(f.From)))
		}
		if !f.Removed {
			lines = append(lines, fmt.Sprintf("+ %s: %s", f.Field, shortJSON(f.To)))
		}
	}
	return append(lines, o.Warnings.lines("warning: ")...)
}

// lines returns a line for each text, with a word before it.
func (d Difference) lines(word string) []string {
	var lines []string
	for _, text := range d.Removed {
		lines = append(lines, "- "+word+text)
	}
	for _, text := range d.Added {
		lines = append(lines, "+ "+word+text)
	}
	return lines
}

// String returns the verdict with its reason.
func (j Judgement) String() string {
	text := strings.ToLower(string(j.Verdict))
	if j.NotServed {
		text = "not served"
	}
	if j.Message != "" {
		text += ": " + j.Message
	}
	return text
}

// shownValue bounds a value in the text for people, in characters.
const shownValue = 80

// shortJSON returns the beginning of a value's JSON.
func shortJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	text := []rune(string(data))
	if len(text) > shownValue {
		return string(text[:shownValue]) + "…"
	}
	return string(text)
}
