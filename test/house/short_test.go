// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// packageLeavesOut matches a TestMain that runs no test of its package with -short, leavesOut also a
	// test that leaves itself out.
	packageLeavesOut = regexp.MustCompile(`needs\.NotShort\(\)|[sS]uite\)?\.Main\(m\)`)
	leavesOut        = regexp.MustCompile(packageLeavesOut.String() + `|needs\.Server\(t\)|testing\.Short\(\)`)
	// starts matches a call that starts a server or an etcd.
	starts = regexp.MustCompile(`\b(gatehousetest\.(Start|StartIn|Main|RunSuites)|servertest\.(Start|StartError|NewProcess)|` +
		`etcd\.Start|review\.Start|server\.New)\(`)
	// startNone are packages whose tests link the API server and start none.
	startNone = map[string]bool{"removed/serving": true, "removed/serving/kinds": true, "hack/schemas": true}
)

// TestShort checks that go test -short starts no server: a package whose tests link the API server
// leaves them out, and so does a file that starts one.
func TestShort(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-test", "-f",
		"{{if .ForTest}}{{.ForTest}} {{.Dir}} {{range .Deps}} {{.}}{{end}}{{end}}", "./...")
	command.Dir = root
	listed, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	directories := map[string]string{} // by package
	for line := range strings.Lines(string(listed)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.Contains(line, " "+module+"apiserver ") {
			directories[strings.TrimPrefix(fields[0], module)] = fields[1]
		}
	}
	if len(directories) < 10 {
		t.Fatalf("%d packages link the API server", len(directories))
	}
	for name, directory := range directories {
		if !startNone[name] && !leavesOut.MatchString(testsIn(t, directory)) {
			t.Errorf("%s: let its TestMain call needs.NotShort, or the tests that start a server needs.Server", name)
		}
	}
	for _, file := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") || startsWithAny(file, []string{"bench/", "examples/operator-tests/", "test/differential/",
			"test/house/"}) {
			continue
		}
		text, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		if starts.Match(text) && !leavesOut.Match(text) && !packageLeavesOut.MatchString(testsIn(t, root+filepath.Dir(file))) {
			t.Errorf("%s starts a server: let it call needs.Server", file)
		}
	}
}

// testsIn returns the text of a directory's tests.
func testsIn(t *testing.T, directory string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	return text.String()
}
