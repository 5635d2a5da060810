// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
)

// TestScript has hack/site build a site of a repository with releases: the newest one of each minor version,
// and the branch.
func TestScript(t *testing.T) {
	needs.Programs(t, "bash", "git")
	work := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		command := exec.Command("git", args...)
		command.Dir = work
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	// The repository has what the checkout has, committed or not, and nothing else.
	copied := exec.Command("bash", "-c", `git ls-files -z --cached --others --exclude-standard |
		tar --create --ignore-failed-read --null --files-from=- | tar --extract --directory="$0"`, work)
	copied.Dir = root
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	git("init", "--quiet", "--initial-branch=main")
	git("add", "--all", "--force")
	git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message=a")
	for _, tag := range []string{"v0.9.1", "v0.10.0", "v0.10.1", "v0.11.0-rc.1", "later"} {
		git("tag", tag)
	}
	into := filepath.Join(work, "built")
	run := exec.Command(filepath.Join(work, "hack/site"), into)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("hack/site: %v\n%s", err, out)
	}
	for page, version := range map[string]string{"docs/index.html": "v0.10.1", "v0.10/docs/index.html": "v0.10.1",
		"v0.9/docs/index.html": "v0.9.1", "main/docs/index.html": "main"} {
		text, err := os.ReadFile(filepath.Join(into, page))
		if err != nil || !strings.Contains(string(text), `data-version="`+version+`"`) {
			t.Errorf("%s isn't of %s: %v", page, version, err)
		}
	}
	entries, err := os.ReadDir(into)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), "11") || entry.Name() == "later" {
			t.Errorf("the site has %s", entry.Name())
		}
	}
	if out, err := exec.Command(filepath.Join(work, "hack/site"), into).CombinedOutput(); err == nil {
		t.Errorf("hack/site builds into a directory that isn't empty:\n%s", out)
	}
}

// varying matches what differs between two runs of the recordings.
var varying = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|web-[a-z0-9]+-[a-z0-9]{5}|[0-9.]+(s|ms|µs)\b|` +
	`v\d+\.\d+\.\d+\S*|server\s+\S+|\s+`)

// TestRecordings checks that the programs still print what the recordings show.
func TestRecordings(t *testing.T) {
	needs.Programs(t, "bash", "script")
	programs, recorded := t.TempDir(), t.TempDir()
	if _, err := program.BuildGatehouse(t.Context(), programs); err != nil {
		t.Fatal(err)
	}
	kubectl, err := program.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(root+"/site/recordings/record", recorded)
	command.Env = append(os.Environ(), "PATH="+programs+":"+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"review.txt", "why.txt"} {
		var texts []string
		for _, directory := range []string{recorded, root + "/site/recordings"} {
			text, err := os.ReadFile(filepath.Join(directory, name))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, varying.ReplaceAllString(string(text), " "))
		}
		if texts[0] != texts[1] {
			t.Errorf("the programs print other things than %s has; run site/recordings/record\n%q\n%q", name, texts[0], texts[1])
		}
	}
}
