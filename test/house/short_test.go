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
	// leavesOut matches what a test, or a package's TestMain, calls to leave out servers with -short.
	leavesOut = regexp.MustCompile(`needs\.NotShort\(\)|needs\.Server\(t\)|[sS]uite\)?\.Main\(m\)|testing\.Short\(\)`)
	// startNone are packages whose tests link the API server and start none.
	startNone = map[string]bool{"apiserver": true, "legacy": true}
)

// TestShort checks that go test -short starts no server: a package whose tests link the API server
// leaves them out.
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
		if !startNone[name] && !leavesOut.MatchString(text.String()) {
			t.Errorf("%s: let its TestMain call needs.NotShort, or the tests that start a server needs.Server", name)
		}
	}
}
