// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs runs the commands in the documents, and checks links and the pages that are made
// from code.
//
// A block marked sh is run. A server that it starts runs until the next server or the document's
// end. In a block marked console, each line that begins with "$ " is run, and must print the lines
// below it. "…" stands for any text, and alone on a line for any number of lines. Columns may be
// further apart, or nearer: their width depends on the text that "…" stands for.
//
// Blocks marked "sh cluster" and "console cluster" are for readers with a cluster that somebody
// else runs. The comparison with kube-apiserver has one.
package docs

import (
	"os"
	"regexp"
	"strings"
)

// A step is one command, or block of commands, of a document.
type step struct {
	line   int // its line in the document, from 1
	shell  string
	expect []string // the output; nil if the document shows none
}

// steps returns the steps of the document at path, in order: those for readers of the kind, or, if
// kind is empty, those for all readers.
func steps(path, kind string) ([]step, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var found []step
	forReaders := strings.TrimRight(" "+kind, " ")
	var block string
	for i, line := range strings.Split(string(data), "\n") {
		marker, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && block == "":
			if block = strings.TrimSuffix(marker, forReaders); block == "" || !strings.HasSuffix(marker, forReaders) {
				block = "text"
			}
			if block == "sh" {
				found = append(found, step{line: i + 2})
			}
		case fence:
			block = ""
		case block == "sh":
			found[len(found)-1].shell += line + "\n"
		case block == "console":
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				found = append(found, step{line: i + 1, shell: command, expect: []string{}})
			} else if len(found) > 0 && found[len(found)-1].expect != nil {
				last := &found[len(found)-1]
				last.expect = append(last.expect, line)
			}
		}
	}
	return found, nil
}

// gap matches the spaces between two columns, but not those at the beginning of a line.
var gap = regexp.MustCompile(`([\S\x00]) {2,}`)

// matches reports whether output is as expected.
func matches(expect []string, output string) bool {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range expect {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		text := gap.ReplaceAllString(strings.Join(parts, "\x00"), "$1 {2,}")
		pattern.WriteString(strings.ReplaceAll(text, "\x00", ".*") + ` *\n`)
		if parts[len(parts)-1] == "" {
			pattern.WriteString(`(?: {8}.*\n)*?`) // the rest of a wrapped line
		}
	}
	pattern.WriteString(`\z`)
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return regexp.MustCompile(pattern.String()).MatchString(output)
}
