// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"gatehouse.dev/internal/terminal"
)

// label is the width of the column of labels.
const label = 12

// paint returns a text in a color, if the printer has colors.
func (p *Printer) paint(color terminal.Color, text string) string {
	text = terminal.Line(text)
	if !p.Color {
		return text
	}
	return color.Paint(text)
}

// age returns the time since t for people: 12s, 3d.
func (p *Printer) age(t time.Time) string { return duration.HumanDuration(p.Now.Sub(t)) }

// firstLabel returns the label for the first of several items, and none for the others.
func firstLabel(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

// item writes a label and a text beside it.
func (p *Printer) item(name, text string) {
	p.sourceItem(name, text, "")
}

// warningLabels are the labels of what went wrong and refused nothing.
var warningLabels = []string{"let pass", "warned", "dropped"}

// sourceItem writes a label and a text beside it, in which the name of a plugin is bold.
func (p *Printer) sourceItem(name, text, plugin string) {
	color := terminal.Color("")
	if slices.Contains(warningLabels, name) {
		color = terminal.Yellow
	}
	fmt.Fprintf(&p.out, "  %s%*s", p.paint(color, name), label-2-len(name), "")
	p.wrapBold(label, label, text, plugin)
}

// wrap writes lines that begin with indent.
func (p *Printer) wrap(indent, text string) {
	p.out.WriteString(indent)
	p.wrapFrom(len(indent), len(indent), text)
}

// wrapFrom writes a text that begins at one column and continues at another.
func (p *Printer) wrapFrom(column, indent int, text string) { p.wrapBold(column, indent, text, "") }

// wrapBold is wrapFrom for a text in which one word is bold.
func (p *Printer) wrapBold(column, indent int, text, bold string) {
	begun := false
	for word := range strings.FieldsSeq(text) {
		word = terminal.Line(word)
		n := utf8.RuneCountInString(word)
		switch {
		case !begun:
		case column+1+n > p.Width:
			fmt.Fprintf(&p.out, "\n%*s", indent, "")
			column = indent
		default:
			p.out.WriteByte(' ')
			column++
		}
		if name := strings.TrimSuffix(word, ":"); bold != "" && name == bold {
			word = p.paint(terminal.Bold, name) + word[len(name):]
		}
		p.out.WriteString(word)
		column += n
		begun = true
	}
	p.out.WriteByte('\n')
}

// truncated returns a line that fits the width.
func truncated(line string, width int) string {
	if runes := []rune(line); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}
