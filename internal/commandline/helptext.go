// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// longList is the length from which a text in parentheses is a list that a screen has no room for.
const longList = 80

// firstSentence returns the beginning of a flag's usage, without long lists.
func firstSentence(usage string) string {
	usage, _, _ = strings.Cut(usage, "\n")
	if before, rest, ok := strings.Cut(usage, " ("); ok {
		if list, after, ok := strings.Cut(rest, ")"); ok && len(list) > longList {
			usage = before + after
		}
	}
	if sentence, _, ok := strings.Cut(usage, ". "); ok {
		return sentence + "."
	}
	return usage
}

// longType is the length from which the name of a flag's type says too little for the room that it takes.
const longType = 12

// flagTable returns a table of flags for a screen.
func flagTable(flags *pflag.FlagSet, width int) string {
	var names, usages []string
	column := 0
	flags.VisitAll(func(f *pflag.Flag) {
		name := "      --" + f.Name
		if f.Shorthand != "" {
			name = "  -" + f.Shorthand + ", --" + f.Name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if len(kind) > longType {
			kind = "value"
		}
		if kind != "" {
			name += " " + kind
		}
		if !slices.Contains([]string{"", "false", "0", "[]", "<nil>"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		names, usages = append(names, name), append(usages, usage)
		if len(name) <= width*2/5 { // a longer one has a line of its own
			column = max(column, len(name))
		}
	})
	column += 2
	var b strings.Builder
	for i, name := range names {
		begin := fmt.Sprintf("%-*s", column, name)
		if len(name)+2 > column {
			begin = fmt.Sprintf("%s\n%*s", name, column, "")
		}
		b.WriteString(begin + strings.Join(wrapWords(usages[i], width-column), fmt.Sprintf("\n%*s", column, "")) + "\n")
	}
	return b.String()
}

// reflow breaks the lines of paragraphs at a width. Paragraphs with indented lines stay as they are.
func reflow(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		if !strings.HasPrefix(paragraph, " ") && !strings.Contains(paragraph, "\n ") {
			paragraphs[i] = strings.Join(wrapWords(paragraph, width), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// wrapWords returns lines with the words of a text, none wider than the width unless it is one word.
func wrapWords(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// height returns the number of lines of a text on a terminal.
func height(text string, width int) int {
	n := 0
	for line := range strings.Lines(text) {
		n += 1 + max(0, utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))-1)/width
	}
	return n
}
