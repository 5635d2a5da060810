// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal wraps, colors and escapes text for the terminal that it is written to.
package terminal

import (
	"io"
	"os"
	"strings"

	"k8s.io/component-base/term"
)

// A Color is the escape sequence of a color.
type Color string

// The colors.
const (
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"

	plain = "\x1b[0m"
)

// Style says how text is written.
type Style struct {
	// Width is the number of columns of a line; 0 for any.
	Width int
	// Color reports whether words are colored.
	Color bool
}

// Lines are at least and at most this wide, whatever the terminal's width is.
const (
	minWidth = 40
	maxWidth = 140
)

// StyleOf returns the style of text that is written to w. If w isn't a terminal, text is written as it
// is. If NO_COLOR is in the environment, text has no color.
func StyleOf(w io.Writer) Style {
	columns, _, err := term.TerminalSize(w)
	if err != nil {
		return Style{}
	}
	return Style{Width: min(max(columns, minWidth), maxWidth), Color: os.Getenv("NO_COLOR") == ""}
}

// Write writes text in the style of w, escaped; see Format and Escape.
func Write(w io.Writer, text string, colors map[string]Color) error {
	_, err := io.WriteString(w, StyleOf(w).Format(Escape(text), colors))
	return err
}

// Format colors the words that begin lines, and wraps lines that are too wide. The following lines are
// indented as the first one, but at least a little.
func (s Style) Format(text string, colors map[string]Color) string {
	if s == (Style{}) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for i, part := range s.wrap(line) {
			if word, _, _ := strings.Cut(part, " "); i == 0 && s.Color && colors[word] != "" {
				part = string(colors[word]) + word + plain + part[len(word):]
			}
			b.WriteString(part)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// wrap splits a line into lines of the width, unless a word is wider.
func (s Style) wrap(line string) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if indent == "" {
		indent = "  "
	}
	var parts []string
	rest := []rune(line)
	for begin := len(line) - len(strings.TrimLeft(line, " ")); s.Width > 0 && len(rest) > s.Width; begin = len(indent) {
		at := begin
		for i := begin + 1; i < len(rest) && (i <= s.Width || at == begin); i++ {
			if rest[i] == ' ' {
				at = i
			}
		}
		if at == begin {
			break // the rest is one word
		}
		parts = append(parts, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(indent + strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(parts, string(rest))
}
