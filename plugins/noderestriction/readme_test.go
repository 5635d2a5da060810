// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The manual page says which test states which rule. Every test that it names exists, and every
// rule names one.
func TestManualNamesTheTests(t *testing.T) {
	exist := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../../test/identity/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, declaration := range parsed.Decls {
				if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
					exist[function.Name.Name] = true
				}
			}
		}
	}
	manual, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, name := 0, regexp.MustCompile(`^Test\w+$`)
	for line := range strings.Lines(string(manual)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(line, "| resource ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		rules++
		for test := range strings.SplitSeq(cells[3], ",") {
			if test = strings.TrimSpace(test); !name.MatchString(test) || !exist[test] {
				t.Errorf("there is no test %q, of which the manual says that it states: %s", test, cells[2])
			}
		}
	}
	if rules < 25 {
		t.Errorf("only %d rules were found in the manual", rules)
	}
}
