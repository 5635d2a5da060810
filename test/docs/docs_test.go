// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
)

// TestDocuments runs the commands of every document. Documents use the default port, as their
// readers do, so each runs in namespaces of its own, or, if there can be none, one after the other.
func TestDocuments(t *testing.T) {
	needs.Programs(t, "bash", "git", "xargs")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	build(t)
	possible := program.CanEnterNamespaces()
	var documents []string
	for _, pattern := range []string{"README.md", "docs/*.md", "plugins/*/README.md", "removed/*/README.md", "examples/*/README.md", "removed/examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	for _, document := range documents {
		name, _ := filepath.Rel(root, document)
		t.Run(name, func(t *testing.T) {
			if possible {
				t.Parallel()
			}
			r := &Reader{T: t, Dir: t.TempDir(), Bin: bin}
			if strings.Contains(name, "examples/") {
				// The reader is in the example's folder.
				if err := os.CopyFS(r.Dir, os.DirFS(filepath.Dir(document))); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(filepath.Join(r.Dir, "go.mod")); err == nil {
					// The replace of go.mod is for its place in the tree. Modules are fetched here.
					for _, command := range []string{"go mod edit -replace=gatehouse.dev=" + root, "go list -deps -test ."} {
						if out, err := r.command(t.Context(), command).CombinedOutput(); err != nil {
							t.Fatalf("%s: %v\n%s", command, err, out)
						}
					}
				}
			}
			if name == "docs/review.md" {
				// The reader has fetched charts.
				if err := errors.Join(charts.Put(t.Context(), filepath.Join(r.Dir, "charts")),
					charts.BuildHelm(t.Context(), bin)); err != nil {
					t.Fatal(err)
				}
			}
			if name == "README.md" {
				// The reader is in a clone.
				if out, err := exec.Command("sh", "-c",
					`cd "$0" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$1"`,
					root, r.Dir).CombinedOutput(); err != nil {
					t.Fatalf("copying the repository: %v\n%s", err, out)
				}
			}
			if possible {
				if err := program.EnterNamespaces(); err != nil {
					t.Fatal(err)
				}
			}
			if possible && name == "README.md" {
				// At the path of the repository the build cache is of use.
				if err := program.Bind(r.Dir, root); err != nil {
					t.Fatal(err)
				}
				r.Dir = root
			}
			r.Read(document, "")
		})
	}
}

var (
	// bin is a directory with the programs that documents run.
	bin   string
	built = sync.OnceValue(func() error {
		_, err := program.BuildGatehouse(context.Background(), bin)
		if os.Getenv(needs.EachNight) != "" {
			return errors.Join(err, program.BuildOldestKubectl(context.Background(), bin))
		}
		kubectl, other := program.Kubectl(context.Background())
		return errors.Join(err, other, os.Symlink(kubectl, filepath.Join(bin, "kubectl")))
	})
)

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "gatehouse-docs-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	needs.ManyAtATime()
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

// build builds the programs, unless another test has built them.
func build(t *testing.T) {
	t.Helper()
	needs.Server(t)
	if err := built(); err != nil {
		t.Fatal(err)
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
		{[]string{"a   b"}, "a  b\n", true},
		{[]string{"a  b"}, "a b\n", false},
		{[]string{"a …   c"}, "a 9s    c\n", true},
		{[]string{"a …   c"}, "a 10s  c\n", true},
		{[]string{"…", "b"}, "x\ny\nb\n", true},
		{[]string{"a.c"}, "abc\n", false},
		{[]string{"a …", "b"}, "a x\n          y\nb\n", true},
		{[]string{"a …", "b"}, "a x\ny\nb\n", false},
		{[]string{"a x", "b"}, "a x\n          y\nb\n", false},
	} {
		if got := matches(c.expect, c.output); got != c.want {
			t.Errorf("matches(%q, %q) = %t, want %t", c.expect, c.output, got, c.want)
		}
	}
}

// TestExamplesIndex checks that the index of the examples has all of them.
func TestExamplesIndex(t *testing.T) {
	index, err := os.ReadFile("../../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../examples/*/README.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if name := filepath.Base(filepath.Dir(page)); !strings.Contains(string(index), "]("+name+"/README.md)") {
			t.Errorf("examples/README.md doesn't lead to %s", name)
		}
	}
	if index, err := os.ReadFile("../../docs/README.md"); err != nil || !strings.Contains(string(index),
		"](../examples/README.md)") {
		t.Errorf("docs/README.md doesn't lead to examples/README.md (%v)", err)
	}
}

// TestOldestKubectl checks that documents are tested with the oldest kubectl that they name.
func TestOldestKubectl(t *testing.T) {
	module, err := os.ReadFile("../kubectl/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`k8s.io/kubectl v0\.(\d+)\.`).FindStringSubmatch(string(module))
	if minor == nil {
		t.Fatal("test/kubectl/go.mod has no k8s.io/kubectl")
	}
	for file, want := range map[string]string{
		"README.md":       "kubectl 1." + minor[1] + " or newer",
		"docs/upgrade.md": "| kubectl | 1." + minor[1] + " or newer",
	} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s doesn't say %q (%v)", file, want, err)
		}
	}
}
