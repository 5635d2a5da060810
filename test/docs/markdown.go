// Package docs runs what the documents show.
//
// In a document, a block marked sh is run; if it starts a server, that server runs until the next
// one or the document's end. In a block marked console, lines that begin with "$ " are run and must
// print the lines that follow them; "…" stands for anything, alone on a line for any number of
// lines. Columns may be further apart, or nearer: their width depends on what "…" stands for.
//
// Blocks marked "sh cluster" and "console cluster" are for readers who have a cluster of somebody
// else's: the module bench has one.
package docs

import (
	"os"
	"regexp"
	"strings"
)

// A step is one thing that a document shows.
type step struct {
	line   int // where it stands in its document, from 1
	shell  string
	expect []string // nil where nothing is said of the output
}

// steps are what the document at path shows, in order: in blocks that aren't marked as for readers
// of a kind, or only in those that are for the kind.
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

// gap matches the spaces between two columns, and nothing at the beginning of a line.
var gap = regexp.MustCompile(`([\S\x00]) {2,}`)

// matches reports whether output is what expect says.
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
			pattern.WriteString(`(?: {8}.*\n)*?`) // in which the line goes on
		}
	}
	pattern.WriteString(`\z`)
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return regexp.MustCompile(pattern.String()).MatchString(output)
}
