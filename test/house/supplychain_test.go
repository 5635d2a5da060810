// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// tracked returns the files that git has, or would have with the next commit.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestNoBinaries checks that no file is a program, a library or a package: nobody can review those.
// Source: OpenSSF Scorecard, check Binary-Artifacts.
func TestNoBinaries(t *testing.T) {
	starts := [][]byte{[]byte("\x7fELF"), []byte("MZ"), []byte("\xcf\xfa\xed\xfe"), []byte("\xca\xfe\xba\xbe"),
		[]byte("\x00asm"), []byte("PK\x03\x04"), []byte("!<arch>")}
	files := tracked(t)
	if len(files) < 500 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files {
		content, err := os.ReadFile(root + file)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(starts, func(start []byte) bool { return bytes.HasPrefix(content, start) }) {
			t.Errorf("%s is a program, a library or a package", file)
		}
	}
}

// dependabot has the fields of dependabot.yml that ours uses. Any other field is an error.
// Source: docs.github.com, "Dependabot options reference".
type dependabot struct {
	Version int `json:"version"`
	Updates []struct {
		Ecosystem   string   `json:"package-ecosystem"`
		Directory   string   `json:"directory"`
		Directories []string `json:"directories"`
		Schedule    struct {
			Interval string `json:"interval"`
		} `json:"schedule"`
		Groups map[string]struct {
			Patterns []string `json:"patterns"`
		} `json:"groups"`
		Ignore []struct {
			Name string `json:"dependency-name"`
		} `json:"ignore"`
	} `json:"updates"`
}

// TestDependabot checks that Dependabot looks at every module and every Dockerfile.
func TestDependabot(t *testing.T) {
	text, err := os.ReadFile(root + ".github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file dependabot
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	looked := map[string]bool{} // by ecosystem and directory
	for _, update := range file.Updates {
		if update.Schedule.Interval != "weekly" {
			t.Errorf("%s: interval %q", update.Ecosystem, update.Schedule.Interval)
		}
		for _, dir := range append(update.Directories, update.Directory) {
			looked[update.Ecosystem+" "+dir] = true
		}
	}
	want := []string{"github-actions /"}
	for _, name := range tracked(t) {
		switch dir := path.Join("/", path.Dir(name)); {
		case path.Base(name) == "go.mod" && dir != "/test/kubectl":
			want = append(want, "gomod "+dir)
		case path.Base(name) == "Dockerfile":
			want = append(want, "docker "+dir)
		}
	}
	for _, one := range want {
		if !looked[one] {
			t.Errorf("Dependabot doesn't look at %s", one)
		}
	}
}
