// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/terminal"
)

// count returns a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// number returns a number with separators of thousands.
func number(n int) string { return message.NewPrinter(language.English).Sprint(n) }

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// clock returns a time for people, in UTC.
func clock(t *metav1.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// period returns the time from the first of something to the last.
func period(first, last *metav1.Time) string {
	switch {
	case first == nil:
		return ""
	case first.Equal(last):
		return clock(first)
	case first.UTC().Format("2006-01-02") == last.UTC().Format("2006-01-02"):
		return clock(first) + " to " + last.UTC().Format("15:04:05")
	}
	return clock(first) + " to " + clock(last)
}

// A table has rows of aligned columns, each with further lines below it. The first column has numbers.
type table struct {
	rows   [][]string
	lines  [][]string
	widths []int
}

// row adds a row.
func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = terminal.Line(cells[i])
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cells[i]))
	}
	t.rows, t.lines = append(t.rows, cells), append(t.lines, nil)
}

// below adds a line below the last row.
func (t *table) below(line string) {
	last := len(t.lines) - 1
	t.lines[last] = append(t.lines[last], line)
}

// write writes the table.
func (t *table) write(b *strings.Builder) {
	const numbers = 8
	for i, cells := range t.rows {
		var line strings.Builder
		for j, cell := range cells {
			padding := strings.Repeat(" ", t.widths[j]-utf8.RuneCountInString(cell))
			switch j {
			case 0:
				line.WriteString(strings.Repeat(" ", max(0, numbers-t.widths[0])) + padding + cell)
			default:
				line.WriteString("  " + cell + padding)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, below := range t.lines[i] {
			b.WriteString("            " + strings.ReplaceAll(below, "\n", "\n            ") + "\n")
		}
	}
}
