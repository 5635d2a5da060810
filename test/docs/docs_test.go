package docs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	// what is tested is built apart; this way a change to it is one to the test
	_ "gatehouse.dev/cli"
	_ "gatehouse.dev/plugins"
	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
)

// TestDocuments runs every document with something to run. One after the other: they use the
// default port, as their readers do.
func TestDocuments(t *testing.T) {
	needs.Programs(t, "bash", "git", "xargs")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build(t, root, filepath.Join(bin, "gatehouse"), "./cmd/gatehouse")
	build(t, root, filepath.Join(bin, "kubectl"), "k8s.io/kubernetes/cmd/kubectl")
	var documents []string
	for _, pattern := range []string{"README.md", "docs/*.md", "plugins/*/README.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	for _, document := range documents {
		name, _ := filepath.Rel(root, document)
		t.Run(name, func(t *testing.T) {
			r := &Reader{T: t, Dir: t.TempDir(), Bin: bin}
			if strings.HasPrefix(name, "examples/") {
				// Its reader is in its folder.
				if err := os.CopyFS(r.Dir, os.DirFS(filepath.Dir(document))); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(filepath.Join(r.Dir, "go.mod")); err == nil {
					// Its replace is for its place in the tree.
					replace := r.command(t.Context(), "go mod edit -replace=gatehouse.dev="+root)
					if out, err := replace.CombinedOutput(); err != nil {
						t.Fatalf("%v: %v\n%s", replace, err, out)
					}
				}
			}
			if name == "docs/review.md" {
				// Its reader has fetched charts.
				if err := errors.Join(charts.Put(t.Context(), filepath.Join(r.Dir, "charts")),
					charts.BuildHelm(t.Context(), bin)); err != nil {
					t.Fatal(err)
				}
			}
			if name == "README.md" {
				// Its reader is in a clone.
				if out, err := exec.Command("sh", "-c",
					`cd "$0" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$1"`,
					root, r.Dir).CombinedOutput(); err != nil {
					t.Fatalf("copying the repository: %v\n%s", err, out)
				}
			}
			r.Read(document, "")
		})
	}
}

func build(t *testing.T, root, out, pkg string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, output)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		expect []string
		output string
		want   bool
	}{
		{[]string{}, "", true},
		{[]string{}, "x\n", false},
		{[]string{"a b"}, "a b\n", true},
		{[]string{"a b"}, "a b", true},
		{[]string{"a …"}, "a anything at all\n", true},
		{[]string{"a …"}, "b\n", false},
		{[]string{"a"}, "a\nb\n", false},
		{[]string{"…", "b"}, "x\ny\nb\n", true},
		{[]string{"a.c"}, "abc\n", false},
	} {
		if got := matches(c.expect, c.output); got != c.want {
			t.Errorf("matches(%q, %q) = %t, want %t", c.expect, c.output, got, c.want)
		}
	}
}
