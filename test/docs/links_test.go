// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// root is the repository's directory.
const root = "../.."

var (
	// inline matches the target of a link or picture, reference that of a link's definition.
	inline    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	reference = regexp.MustCompile(`(?m)^\[[^]]+\]:\s+(\S+)`)
	// span matches code within a line, comment a comment, heading a heading, label a link with its
	// text.
	span    = regexp.MustCompile("`[^`\n]*`")
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	label   = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// TestLinks checks that every link of a document within the repository leads to a file that exists
// and, if the link has a fragment, to a heading of that document.
func TestLinks(t *testing.T) {
	pages := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		pages++
		for _, target := range targets(readPage(t, path)) {
			if err := lead(t, filepath.Dir(path), path, target); err != nil {
				t.Errorf("%s: the link to %s: %v", path, target, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 50 {
		t.Errorf("checked %d documents, want more than 50", pages)
	}
}

// TestIndex checks that docs/README.md leads to every page of docs.
func TestIndex(t *testing.T) {
	index := map[string]bool{}
	for _, target := range targets(readPage(t, root+"/docs/README.md")) {
		index[target] = true
	}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		pages, err := filepath.Glob(root + "/docs/" + pattern)
		if err != nil || len(pages) == 0 {
			t.Fatal(pages, err)
		}
		for _, page := range pages {
			if name, _ := filepath.Rel(root+"/docs", page); name != "README.md" && !index[name] {
				t.Errorf("docs/README.md doesn't lead to %s", name)
			}
		}
	}
}

// targets returns the targets of a page's links, without those on other hosts.
func targets(page string) (found []string) {
	page = comment.ReplaceAllString(span.ReplaceAllString(withoutBlocks(page), ""), "")
	for _, match := range append(inline.FindAllStringSubmatch(page, -1),
		reference.FindAllStringSubmatch(page, -1)...) {
		if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
			found = append(found, match[1])
		}
	}
	return found
}

// lead reports an error if a link from page, in directory, to target leads nowhere.
func lead(t *testing.T, directory, page, target string) error {
	t.Helper()
	path, fragment, _ := strings.Cut(target, "#")
	if path != "" {
		page = filepath.Join(directory, path)
	}
	if _, err := os.Stat(page); err != nil {
		return err
	}
	if fragment == "" {
		return nil
	}
	for _, found := range heading.FindAllStringSubmatch(withoutBlocks(readPage(t, page)), -1) {
		if anchor(found[1]) == fragment {
			return nil
		}
	}
	return errors.New("no heading of this name")
}

// anchor returns the fragment by which GitHub leads to a heading.
func anchor(heading string) string {
	heading = label.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// withoutBlocks returns a page without its blocks of code.
func withoutBlocks(page string) string {
	var kept strings.Builder
	block := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
		} else if !block {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTargets(t *testing.T) {
	const page = "[a](a.md#b) and `[code](no.md)`, ![picture](p.png)\n```\n[block](no.md)\n```\n[r]: r.md\n" +
		"[web](https://example.com) <!-- [later](later.md) -->\n"
	if got := strings.Join(targets(page), " "); got != "a.md#b p.png r.md" {
		t.Errorf("targets: %q", got)
	}
	if got := anchor("In CI, and in `Go`: [why](why.md)?"); got != "in-ci-and-in-go-why" {
		t.Errorf("anchor: %q", got)
	}
}
