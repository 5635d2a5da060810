// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/plugins"
)

// A plugin is a folder and a line in plugins/list.go: what it needs of the server is in its
// Descriptor, and no code outside names it. Names that are also a kind's, such as ResourceQuota,
// are in their right elsewhere.
func TestNobodyNamesAPlugin(t *testing.T) {
	names := map[string]bool{}
	for _, d := range plugins.List {
		names[d.Name] = true
	}
	page, err := os.ReadFile(root + "docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`\[(\w+)\]\(\.\./removed/`).FindAllStringSubmatch(string(page), -1) {
		names[match[1]] = true
	}
	for version := range scheme.Scheme.AllKnownTypes() {
		delete(names, version.Kind)
	}
	if len(names) < 30 {
		t.Fatalf("%d plugins have a name that is no kind's", len(names))
	}
	words := regexp.MustCompile(`[A-Za-z]+`)
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || startsWithAny(file, []string{
			"plugins/", "removed/", "apis/", "examples/", "test/", "bench/",
		}) {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, root+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(text, module+"plugins/") && !strings.HasPrefix(text, module+"plugins/internal/") {
				t.Errorf("%s imports the plugin %s", fset.Position(literal.Pos()), text)
			}
			for _, word := range words.FindAllString(text, -1) {
				if names[word] {
					t.Errorf("%s names the plugin %s: say it in the plugin's Descriptor", fset.Position(literal.Pos()),
						word)
				}
			}
			return true
		})
	}
}

// root is the directory of the module.
const root = "../../"

// goFiles are the module's Go files, by their paths in it.
func goFiles(t *testing.T) []string {
	t.Helper()
	return files(t, ".go")
}

// files are the module's files of which the name ends so, by their paths in it.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, suffix):
			relative, err := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(relative))
			return err
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s file: %v", suffix, err)
	}
	return found
}
