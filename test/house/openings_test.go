// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

// forbidden are openings that make a reader guess who acts; see CONTRIBUTING.md on plain words.
var forbidden = []*regexp.Regexp{
	regexp.MustCompile(`(?m)(?:^|[.:] )Who [a-z]`),
	regexp.MustCompile(`(?m)(?:^|\. )What is [^.,?]* is `),
	regexp.MustCompile(`\btells whether\b`),
	regexp.MustCompile(`\bare those that\b`),
}

// TestOpenings checks the comments of the code, apart from tests, and the documents.
func TestOpenings(t *testing.T) {
	command := exec.CommandContext(t.Context(), "git", "ls-files", "*.go", "*.md")
	command.Dir = root
	listed, err := command.Output()
	if err != nil {
		needs.Missing(t, "git and a clone, which list the project's files: %v", err)
	}
	for name := range strings.Lines(string(listed)) {
		name = strings.TrimSpace(name)
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "zz_generated") {
			continue
		}
		text, err := os.ReadFile(root + name)
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".go") {
			text = comments(text)
		}
		for _, opening := range forbidden {
			if match := opening.Find(text); match != nil {
				t.Errorf("%s: say it in plain words: %q", name, bytes.TrimSpace(match))
			}
		}
	}
}

// comments returns the text of a file's comments.
func comments(text []byte) []byte {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	var all bytes.Buffer
	for {
		_, tok, literal := s.Scan()
		if tok == token.EOF {
			return all.Bytes()
		}
		if tok == token.COMMENT {
			all.WriteString(strings.TrimSpace(strings.TrimPrefix(literal, "//")) + "\n")
		}
	}
}
