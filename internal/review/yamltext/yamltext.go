// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yamltext finds the places of nodes in the text of a YAML document, so that a program can change a
// part of it and leave the rest as it is written.
package yamltext

import (
	"errors"
	"strings"
)

// Offset returns the offset of a line and column, which count from 1.
func Offset(text string, line, column int) (int, error) {
	at := 0
	for range line - 1 {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			return 0, errors.New("the file has changed meanwhile")
		}
		at += next + 1
	}
	for range column - 1 { // which are counted in characters
		if at >= len(text) || text[at] == '\n' {
			return 0, errors.New("the file has changed meanwhile")
		}
		for at++; at < len(text) && text[at]&0xC0 == 0x80; at++ {
		}
	}
	return at, nil
}

// FlowEnd returns the offset behind the bracket that closes the one at an offset.
func FlowEnd(text string, begin int) (int, error) {
	depth, quote := 0, byte(0)
	for i := begin; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '"' && c == '\\', quote == '\'' && strings.HasPrefix(text[i:], "''"):
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			before := strings.TrimRight(text[begin:i], " \n")
			if strings.ContainsRune(",:{[", rune(before[len(before)-1])) {
				quote = c // and not one within a word
			}
		case c == '#' && (text[i-1] == ' ' || text[i-1] == '\n'):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, errors.New("it has no end")
}

// Indent returns a text with every line indented.
func Indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String()
}
