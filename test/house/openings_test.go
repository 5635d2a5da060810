package house

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
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

// pending are directories whose comments are to be rewritten. The list only gets shorter.
var pending = []string{
	"internal/decision", "internal/decision/why",
}

// TestOpenings checks the comments of the code, apart from tests, and the documents.
func TestOpenings(t *testing.T) {
	command := exec.CommandContext(t.Context(), "git", "ls-files", "*.go", "*.md")
	command.Dir = root
	listed, err := command.Output()
	if err != nil {
		needs.Missing(t, "git and a clone, which list the project's files: %v", err)
	}
	found := map[string]bool{} // by directory
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
			match := opening.Find(text)
			if match == nil {
				continue
			}
			found[path.Dir(name)] = true
			if !slices.Contains(pending, path.Dir(name)) {
				t.Errorf("%s: say it in plain words: %q", name, bytes.TrimSpace(match))
			}
		}
	}
	for _, dir := range pending {
		if !found[dir] {
			t.Errorf("%s is in plain words: remove it from pending", dir)
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
