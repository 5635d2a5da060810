// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/needs"
)

// hook has the fields of our hooks that pre-commit reads.
// Source: pre-commit.com, "Creating new hooks".
type hook struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Description   string   `json:"description"`
	Entry         string   `json:"entry"`
	Language      string   `json:"language"`
	TypesOr       []string `json:"types_or"`
	PassFilenames *bool    `json:"pass_filenames"`
}

// hookFiles are the files of a repository whose hooks run.
var hookFiles = map[string]string{
	"good/pod.yaml": fmt.Sprintf(pod, "nginx"),
	"bad/pod.yaml":  fmt.Sprintf(pod, "''"),
	"suite/pods.yaml": `apiVersion: gatehouse.dev/v1alpha1
kind: AdmissionTest
spec:
  cases:
  - name: an image is required
    object: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}
    expect: {verdict: Refused}
`,
	"webhook/pods.yaml": `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: everything}
webhooks:
- name: everything.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {service: {namespace: webhooks, name: everything}}
  rules:
  - {apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}
`,
}

// hookRuns has what the hooks are run with, and the exit codes, by command.
var hookRuns = map[string][]struct {
	args []string
	code int
}{
	"review": {{[]string{"--filename=good"}, 0}, {[]string{"--filename=bad"}, 1}, {nil, 2}},
	"test":   {{[]string{"suite"}, 0}, {[]string{"none"}, 2}},
	"lint":   {{[]string{"good"}, 0}, {[]string{"webhook"}, 1}},
}

// readHooks returns the hooks, and writes hookFiles into a directory.
func readHooks(t *testing.T, work string) []hook {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var hooks []hook
	if err := yaml.UnmarshalStrict(data, &hooks); err != nil {
		t.Fatal(err)
	}
	for name, content := range hookFiles {
		write(t, filepath.Join(work, name), content)
	}
	return hooks
}

// TestPreCommitHooks runs the hooks as pre-commit does: the entry, and the arguments of a
// configuration.
func TestPreCommitHooks(t *testing.T) {
	work := t.TempDir()
	hooks := readHooks(t, work)
	build(t)
	var ids []string
	for _, h := range hooks {
		ids = append(ids, h.ID)
		command, system := strings.CutSuffix(strings.TrimPrefix(h.ID, "gatehouse-"), "-system")
		language := map[bool]string{false: "golang", true: "system"}[system]
		if h.Name == "" || h.Description == "" || h.Language != language || h.PassFilenames == nil || *h.PassFilenames ||
			h.Entry != "gatehouse "+command {
			t.Errorf("hook %+v", h)
		}
		for _, run := range hookRuns[command] {
			entry := strings.Fields(h.Entry)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, entry[0]), append(entry[1:], run.args...)...)
			cmd.Dir = work
			out, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != run.code {
				t.Errorf("%s %v: exit code %d, want %d (%v)\n%s", h.Entry, run.args, got, run.code, err, out)
			}
		}
	}
	slices.Sort(ids)
	if want := []string{"gatehouse-lint", "gatehouse-lint-system", "gatehouse-review", "gatehouse-review-system",
		"gatehouse-test", "gatehouse-test-system"}; !slices.Equal(ids, want) {
		t.Errorf("the hooks are %v, want %v", ids, want)
	}
}

// TestPreCommit runs pre-commit in a repository whose configuration has the hooks of an installed program, at
// a commit with the hooks of this directory.
func TestPreCommit(t *testing.T) {
	needs.Programs(t, "pre-commit", "git")
	work, hooks := t.TempDir(), t.TempDir()
	readHooks(t, work)
	build(t)
	text, err := os.ReadFile(filepath.Join(root(t), ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(hooks, ".pre-commit-hooks.yaml"), string(text))
	env := append(os.Environ(), "PRE_COMMIT_HOME="+t.TempDir(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(),
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=t",
		"GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=t@example.com")
	run := func(dir string, command ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(dir string, command ...string) string {
		out, err := run(dir, command...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		return strings.TrimSpace(out)
	}
	must(hooks, "git", "init", "--quiet")
	must(hooks, "git", "add", ".")
	must(hooks, "git", "commit", "--quiet", "--message=hooks")
	write(t, filepath.Join(work, ".pre-commit-config.yaml"), `repos:
- repo: `+hooks+`
  rev: `+must(hooks, "git", "rev-parse", "HEAD")+`
  hooks:
  - id: gatehouse-lint-system
    args: [good]
  - id: gatehouse-test-system
    args: [suite]
  - id: gatehouse-review-system
    args: [--filename=bad]
`)
	must(work, "git", "init", "--quiet")
	must(work, "git", "add", ".")
	out, err := run(work, "pre-commit", "run", "--all-files", "--color=never")
	if err == nil || !regexp.MustCompile(`(?s)gatehouse lint\.+Passed\n.*gatehouse test\.+Passed\n.*gatehouse review\.+Failed\n.*`+
		`exit code: 1\n.*refused +Pod default/p `).MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
