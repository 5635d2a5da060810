// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// dependencyRow matches a row of docs/dependencies.md. Its first cell is a module, or a directory with one of ours.
var dependencyRow = regexp.MustCompile("(?m)^\\| `([^` ]+)` \\|(.*)\\|$")

// directRequirements returns the modules that a go.mod requires for its own imports and tools.
func directRequirements(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(root + file)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse(file, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, required := range mod.Require {
		isTool := slices.ContainsFunc(mod.Tool, func(tool *modfile.Tool) bool {
			return strings.HasPrefix(tool.Path+"/", required.Mod.Path+"/")
		})
		if !required.Indirect || isTool {
			direct = append(direct, required.Mod.Path)
		}
	}
	return direct
}

// TestDependencies checks that docs/dependencies.md has a row for each module that ours require directly, and for no
// other. No cell of a row may be empty.
func TestDependencies(t *testing.T) {
	text, err := os.ReadFile(root + "docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	main, others, ok := strings.Cut(string(text), "\n## Modules of their own\n")
	if !ok {
		t.Fatal("docs/dependencies.md has no section about modules of their own")
	}
	var got []string
	for _, row := range dependencyRow.FindAllStringSubmatch(main, -1) {
		got = append(got, row[1])
		checkCells(t, row, 3)
	}
	direct := directRequirements(t, "go.mod")
	compareDependencies(t, "go.mod", got, direct)
	if len(direct) < 50 {
		t.Errorf("go.mod requires %d modules", len(direct))
	}

	got = nil
	for _, row := range dependencyRow.FindAllStringSubmatch(others, -1) {
		added, _, _ := strings.Cut(row[2], "|")
		got = append(got, row[1]+" "+strings.Trim(added, " `"))
		checkCells(t, row, 2)
	}
	var want []string
	for _, file := range tracked(t) {
		if path.Base(file) != "go.mod" || file == "go.mod" {
			continue
		}
		for _, module := range directRequirements(t, file) {
			if module != "gatehouse.dev" && !slices.Contains(direct, module) {
				want = append(want, path.Dir(file)+" "+module)
			}
		}
	}
	compareDependencies(t, "the other go.mod files", got, want)
}

// checkCells checks that a row has as many cells after its first as the table, each with words.
func checkCells(t *testing.T, row []string, want int) {
	t.Helper()
	cells := strings.Split(row[2], "|")
	if len(cells) != want || slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) == "" }) {
		t.Errorf("docs/dependencies.md: the row of %s must have %d cells with words after the first", row[1], want)
	}
}

// compareDependencies checks that the page has the modules of the go.mod files, each once.
func compareDependencies(t *testing.T, files string, got, want []string) {
	t.Helper()
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("docs/dependencies.md has no row for %s: say what it is for, why it and not another, and what would replace it", name)
		}
	}
	slices.Sort(got)
	for i, name := range got {
		if !slices.Contains(want, name) || i > 0 && got[i-1] == name {
			t.Errorf("docs/dependencies.md: the row for %s isn't of a direct requirement of %s, or is the second", name, files)
		}
	}
}
