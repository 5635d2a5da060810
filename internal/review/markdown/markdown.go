// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package markdown writes a review, or what a candidate would change, as a table in Markdown. It is short enough for a
// comment on a pull request.
package markdown

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gatehouse.dev/internal/terminal"
)

// The bounds of a report, in bytes. GitHub's comments have 65,536 characters at most.
const (
	maxReport = 59_000
	maxList   = 8_000 // of all gaps, and of all notes
	maxText   = 2_000 // of a cell, a gap or a note
)

// A Row says what comes of an object, or of objects that are alike. Lines of its texts stay lines.
type Row struct {
	Object, Verdict string
	// By is who decides, Because the reason, and ToPass what would have to change. Each may be empty.
	By, Because, ToPass string
}

// A Report has rows, the gravest first.
type Report struct {
	// Headline counts what was judged, and what came of it.
	Headline string
	// Gaps are what could not be read, judged or asked. Each begins with a word for that, as "error: ".
	Gaps []string
	Rows []Row
	// Notes are what else there is to know.
	Notes []string
}

// Write writes the report: the headline, the gaps, the table, the notes. It leaves out the last rows, gaps and notes if
// there is no room for them, and says how many.
func (r *Report) Write(w io.Writer) error {
	head := fmt.Sprintf("**%s**\n%s", escape(r.Headline), list(r.Gaps, "", "gaps"))
	notes := list(r.Notes, "note: ", "notes")
	_, err := io.WriteString(w, head+r.table(maxReport-len(head)-len(notes))+notes)
	return err
}

// table returns the table of the rows for which there is room.
func (r *Report) table(room int) string {
	if len(r.Rows) == 0 {
		return ""
	}
	return bounded("\n| object | verdict | by | because | to pass |\n| --- | --- | --- | --- | --- |\n", r.Rows, Row.line,
		"\nand %d more rows; -o json has all\n", room)
}

// line returns the row as a line of the table.
func (r Row) line() string {
	cells := []string{r.Object, r.Verdict, r.By, r.Because, r.ToPass}
	for i := range cells {
		cells[i] = escape(cells[i])
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// list returns texts as a list. label begins each item, and name is what they are called.
func list(texts []string, label, name string) string {
	if len(texts) == 0 {
		return ""
	}
	return bounded("\n", texts, func(text string) string { return "- " + label + escape(text) + "\n" },
		"- and %d more "+name+"; -o json has all\n", maxList)
}

// bounded returns a text, and below it the lines of the items for which there is room, and how many there are besides.
func bounded[T any](text string, items []T, line func(T) string, more string, room int) string {
	for i, item := range items {
		next, end := line(item), fmt.Sprintf(more, len(items)-i)
		if len(text)+len(next)+len(end) > room {
			return text + end
		}
		text += next
	}
	return text
}

// escape returns a text in one line that shows as it is. Nothing in it is Markdown or HTML, and no user or issue that it
// names hears of it: a space without width follows each @ and #.
func escape(text string) string {
	var b strings.Builder
	text = strings.TrimSpace(text)
	for _, r := range terminal.Escape(text[:min(len(text), maxText+utf8.UTFMax)]) {
		piece := string(r)
		switch {
		case r == '\n':
			piece = "<br>"
		case r == '@' || r == '#':
			piece += "&#8203;"
		case strings.ContainsRune("\\`*_[]<>|~&$", r):
			piece = `\` + piece
		}
		if b.Len()+len(piece) > maxText {
			return b.String() + "…"
		}
		b.WriteString(piece)
	}
	return b.String()
}
