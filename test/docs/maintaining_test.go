// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page for maintainers names files and folders that exist, in under 200 lines.
func TestMaintaining(t *testing.T) {
	text, err := os.ReadFile("../../docs/maintaining.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines >= 200 {
		t.Errorf("docs/maintaining.md has %d lines", lines)
	}
	paths := regexp.MustCompile("`([a-z]+(/[A-Za-z0-9_.-]+)+|dashboard)`").FindAllStringSubmatch(string(text), -1)
	if len(paths) < 40 {
		t.Fatalf("docs/maintaining.md names only %d files and folders", len(paths))
	}
	for _, path := range paths {
		if _, err := os.Stat("../../" + path[1]); err != nil {
			t.Errorf("docs/maintaining.md names %s: %v", path[1], err)
		}
	}
	tests := map[string]bool{}
	if err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			tests[string(test[1])] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if !tests[test[1]] {
			t.Errorf("docs/maintaining.md names %s, which no file has", test[1])
		}
	}
}
