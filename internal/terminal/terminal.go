// Package terminal fits text to the terminal that it is written to.
package terminal

import (
	"io"
	"os"
	"strings"

	"k8s.io/component-base/term"
)

// A Color is how a terminal is told to write in it.
type Color string

// The colors.
const (
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"

	plain = "\x1b[0m"
)

// Style is how text is written.
type Style struct {
	// Width is how many columns lines have; 0 for any.
	Width int
	// Color says that words have their colors.
	Color bool
}

// Text is no narrower and no wider than this, whatever the terminal is.
const (
	minWidth = 40
	maxWidth = 140
)

// StyleOf is the style of what is written to w: as it is, unless that is a terminal. With NO_COLOR
// in the environment it has no color.
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

// Format gives the words that begin lines their colors, and goes on with lines that are too wide in
// the next ones, as far in as they begin, but at least a little.
func (s Style) Format(text string, colors map[string]Color) string {
	if s == (Style{}) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for i, part := range s.wrapped(line) {
			if word, _, _ := strings.Cut(part, " "); i == 0 && s.Color && colors[word] != "" {
				part = string(colors[word]) + word + plain + part[len(word):]
			}
			b.WriteString(part)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// wrapped is a line in lines that are no wider than they may be, unless a word is.
func (s Style) wrapped(line string) []string {
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
			break // it is one word
		}
		parts = append(parts, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(indent + strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(parts, string(rest))
}
