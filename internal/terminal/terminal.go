// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal wraps, colors and escapes text for the terminal that it is written to.
package terminal

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Palette says which words of a text are colored.
type Palette struct {
	// Begin has the words that begin lines, and Indented those that begin indented lines.
	Begin, Indented map[string]Color
	// Lines has the words that color the whole of an indented line, such as the signs of a diff.
	Lines map[string]Color
	// Bold has the words that are bold anywhere in indented lines, such as the names of plugins.
	Bold []string
}

// Diff are the signs that begin the lines of a diff.
var Diff = map[string]Color{"+": Green, "-": Red}

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

// StyleOf returns the style of text that is written to w. If w isn't a terminal, lines are as wide as they
// are, and --color=always alone colors them.
func StyleOf(w io.Writer) Style {
	style := Style{Color: HasColor(w)}
	if columns, ok := Columns(w); ok {
		style.Width = min(max(columns, minWidth), maxWidth)
	}
	return style
}

// Write writes text in the style of w, escaped; see Format and Escape.
func Write(w io.Writer, text string, colors Palette) error {
	_, err := io.WriteString(w, StyleOf(w).Format(Escape(text), colors))
	return err
}

// Format colors words of a text, and wraps lines that are too wide. The following lines begin below the text
// beside a label, if there is one, or are indented as the first one, but at least a little.
func (s Style) Format(text string, colors Palette) string {
	if s == (Style{}) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		color := colors.lineColor(line)
		for i, part := range s.wrap(line) {
			if s.Color {
				part = colors.paint(part, color, i == 0)
			}
			b.WriteString(part)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// lineColor returns the color of a whole line, or nothing.
func (p Palette) lineColor(line string) Color {
	rest := strings.TrimLeft(line, " ")
	if rest == line {
		return ""
	}
	word, _, _ := strings.Cut(rest, " ")
	return p.Lines[word]
}

// paint colors a line, or a part of one that was wrapped. color is the color of the whole line.
func (p Palette) paint(line string, color Color, begins bool) string {
	rest := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(rest)]
	if color != "" {
		return indent + color.Paint(rest)
	}
	words := strings.Split(rest, " ")
	for i, word := range words {
		switch name := strings.TrimRight(word, ":,"); {
		case begins && i == 0 && indent == "" && p.Begin[word] != "":
			words[i] = p.Begin[word].Paint(word)
		case begins && i == 0 && indent != "" && p.Indented[word] != "":
			words[i] = p.Indented[word].Paint(word)
		case indent != "" && name != "" && slices.Contains(p.Bold, name):
			words[i] = Bold.Paint(name) + word[len(name):]
		}
	}
	return indent + strings.Join(words, " ")
}

// wrap splits a line into lines of the width, unless a word is wider.
func (s Style) wrap(line string) []string {
	indent := strings.Repeat(" ", s.hang(line))
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

// hang returns the column at which a line continues that is too wide.
func (s Style) hang(line string) int {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if label, rest, ok := strings.Cut(text, "  "); ok {
		text = strings.TrimLeft(rest, " ")
		column := utf8.RuneCountInString(line) - utf8.RuneCountInString(text)
		if label != "" && column <= s.Width/3 {
			return column
		}
	}
	if indent == 0 {
		return 2
	}
	return indent
}
