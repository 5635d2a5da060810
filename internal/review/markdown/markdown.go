// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package markdown writes a review, or what a candidate would change, as a table in Markdown. It is short enough for a
// comment on a pull request.
package markdown

import (
	"fmt"
	"io"
	"strings"

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
	// Gaps are what could not be read or judged.
	Gaps []string
	Rows []Row
	// Notes are what else there is to know.
	Notes []string
}

// Write writes the report: the headline, the gaps, the table, the notes. It leaves out the last rows, gaps and notes if
// there is no room for them, and says how many.
func (r *Report) Write(w io.Writer) error {
	head := fmt.Sprintf("**%s**\n%s", escape(r.Headline), list(r.Gaps, "gaps"))
	notes := list(r.Notes, "notes")
	_, err := io.WriteString(w, head+r.table(maxReport-len(head)-len(notes))+notes)
	return err
}

// table returns the table of the rows for which there is room.
func (r *Report) table(room int) string {
	if len(r.Rows) == 0 {
		return ""
	}
	rows := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		cells := []string{row.Object, row.Verdict, row.By, row.Because, row.ToPass}
		for j := range cells {
			cells[j] = escape(cells[j])
		}
		rows[i] = "| " + strings.Join(cells, " | ") + " |\n"
	}
	return bounded("\n| object | verdict | by | because | to pass |\n| --- | --- | --- | --- | --- |\n", rows,
		"\nand %d more rows; -o json has all\n", room)
}

// list returns texts as a list.
func list(texts []string, name string) string {
	if len(texts) == 0 {
		return ""
	}
	items := make([]string, len(texts))
	for i, text := range texts {
		items[i] = "- " + escape(text) + "\n"
	}
	return bounded("\n", items, "- and %d more "+name+"; -o json has all\n", maxList)
}

// bounded returns a text, and below it those of the lines for which there is room, and how many there are besides.
func bounded(text string, lines []string, more string, room int) string {
	for i, line := range lines {
		end := fmt.Sprintf(more, len(lines)-i)
		if len(text)+len(line)+len(end) > room {
			return text + end
		}
		text += line
	}
	return text
}

// escape returns a text in one line that shows as it is. Nothing in it is Markdown or HTML, and no user or issue that it
// names hears of it: a space without width follows each @ and #.
func escape(text string) string {
	var b strings.Builder
	for _, r := range strings.TrimSpace(terminal.Escape(text)) {
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
