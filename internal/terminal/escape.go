// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes untrusted text safe to print. Control characters, and characters that change the
// direction of writing, are written as in Go ("\x1b"). Lines and tabs stay. A line that a CI system
// would take for a command, as GitHub takes ::error::, gets a backslash.
func Escape(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest := strings.TrimLeftFunc(line, unicode.IsSpace)
		for i, r := range line {
			if i == len(line)-len(rest) && strings.HasPrefix(rest, "::") {
				b.WriteByte('\\')
			}
			_, size := utf8.DecodeRuneInString(line[i:])
			switch {
			case r == '\n' || r == '\t':
				b.WriteRune(r)
			case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && unicode.IsControl(r):
				fmt.Fprintf(&b, `\x%02x`, line[i])
			case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
				fmt.Fprintf(&b, `\u%04x`, r)
			default:
				b.WriteRune(r)
			}
		}
	}
	return commands.Replace(b.String())
}

// commands are the beginnings of CI systems' commands, which may be anywhere in a line.
var commands = strings.NewReplacer("##[", `#\#[`, "##vso[", `#\#vso[`)

// Line is Escape for text that must stay on one line, such as names of objects and files.
func Line(text string) string { return strings.ReplaceAll(Escape(text), "\n", `\n`) }
