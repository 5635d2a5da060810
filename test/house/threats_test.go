// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest is a test that a page names, such as `webhook.TestCall`.
var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")

// Each row of docs/threats.md names a test, and each test that it names exists.
func TestThreats(t *testing.T) {
	page, err := os.ReadFile("../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| threat") {
			continue
		}
		rows++
		tests := namedTest.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, test := range tests {
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("package %s has no %s", test[1], test[2])
			}
		}
	}
	if rows < 30 {
		t.Errorf("docs/threats.md has %d threats", rows)
	}
}

// The tests that two pages name exist.
func TestNamedTests(t *testing.T) {
	for name, least := range map[string]int{"docs/design/upstream-tests.md": 15, "docs/testing.md": 40} {
		page, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		tests := namedTest.FindAllStringSubmatch(string(page), -1)
		for _, test := range tests {
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("%s: package %s has no %s", name, test[1], test[2])
			}
		}
		if len(tests) < least {
			t.Errorf("%s names %d tests", name, len(tests))
		}
	}
}

// hasTest reports whether a package has a test of the name.
func hasTest(t *testing.T, directory, name string) bool {
	t.Helper()
	files, err := filepath.Glob("../../" + directory + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
