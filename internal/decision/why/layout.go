// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"gatehouse.dev/internal/terminal"
)

// label is the width of the column of labels.
const label = 12

// The colours.
const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
	bold  = "\x1b[1m"
	plain = "\x1b[0m"
)

func (p *Printer) paint(color, text string) string {
	text = terminal.Line(text)
	if !p.Color {
		return text
	}
	return color + text + plain
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
	fmt.Fprintf(&p.out, "  %-*s", label-2, name)
	p.wrapFrom(label, label, text)
}

// wrap writes lines that begin with indent.
func (p *Printer) wrap(indent, text string) {
	p.out.WriteString(indent)
	p.wrapFrom(len(indent), len(indent), text)
}

// wrapFrom writes a text that begins at one column and continues at another.
func (p *Printer) wrapFrom(column, indent int, text string) {
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
