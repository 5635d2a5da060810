// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
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

// pod is the manifest of a pod, which is refused if its image is empty.
const pod = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: %s}]}
`

// action has the fields that GitHub reads of action.yml. Any other field is an error.
// Source: docs.github.com, "Metadata syntax reference".
type action struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Author      string `json:"author"`
	Branding    struct {
		Icon  string `json:"icon"`
		Color string `json:"color"`
	} `json:"branding"`
	Inputs map[string]struct {
		Description string `json:"description"`
		Required    bool   `json:"required"`
		Default     string `json:"default"`
	} `json:"inputs"`
	Runs struct {
		Using string `json:"using"`
		Steps []struct {
			Name  string            `json:"name"`
			Uses  string            `json:"uses"`
			With  map[string]string `json:"with"`
			Shell string            `json:"shell"`
			Env   map[string]string `json:"env"`
			Run   string            `json:"run"`
		} `json:"steps"`
	} `json:"runs"`
}

// expression matches an expression of GitHub's.
var expression = regexp.MustCompile(`\$\{\{ ([a-z._-]+) \}\}`)

// TestAction runs the action's steps as GitHub runs them, except for steps that are actions.
func TestAction(t *testing.T) {
	needs.Programs(t, "bash")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.UnmarshalStrict(data, &a); err != nil {
		t.Fatal(err)
	}
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" ||
		!slices.Contains([]string{"white", "black", "yellow", "blue", "green", "orange", "red", "purple", "gray-dark"},
			a.Branding.Color) {
		t.Errorf("the action lacks what GitHub wants to know: %+v", a)
	}
	for name, input := range a.Inputs {
		if input.Description == "" || input.Required && input.Default != "" {
			t.Errorf("input %s: %+v", name, input)
		}
	}
	work, temp := t.TempDir(), t.TempDir()
	// A program that is up to date isn't linked again.
	build(t)
	if err := errors.Join(os.Mkdir(filepath.Join(temp, "gatehouse"), 0o700),
		os.Symlink(filepath.Join(bin, "gatehouse"), filepath.Join(temp, "gatehouse", "gatehouse"))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(work, "good one.yaml"), fmt.Sprintf(pod, "nginx"))
	write(t, filepath.Join(work, "bad.yaml"), fmt.Sprintf(strings.ReplaceAll(pod, "name: p", "name: q"), "''"))
	write(t, filepath.Join(work, "state.yaml"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
	run := func(inputs map[string]string) (output string, code int) {
		t.Helper()
		values := map[string]string{"github.action_path": root, "runner.temp": temp}
		for name, input := range a.Inputs {
			values["inputs."+name] = input.Default
		}
		for name, value := range inputs {
			values["inputs."+name] = value
		}
		for _, step := range a.Runs.Steps {
			if expression.MatchString(step.Run) {
				t.Errorf("step %s: an expression within a script is run as part of it", step.Name)
			}
			if (step.Uses == "") == (step.Run == "") || (step.Run != "") != (step.Shell == "bash") {
				t.Errorf("step %s is neither an action nor a script of bash: %+v", step.Name, step)
			}
			if step.Run == "" {
				continue
			}
			// Source: as GitHub's runner calls bash for `shell: bash`.
			cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c",
				step.Run)
			cmd.Dir, cmd.Env = work, os.Environ()
			for name, value := range step.Env {
				cmd.Env = append(cmd.Env, name+"="+expression.ReplaceAllStringFunc(value, func(e string) string {
					value, ok := values[expression.FindStringSubmatch(e)[1]]
					if !ok {
						t.Errorf("step %s: there is no %s", step.Name, e)
					}
					return value
				}))
			}
			out, err := cmd.CombinedOutput()
			output += string(out)
			if err != nil {
				return output, cmd.ProcessState.ExitCode()
			}
		}
		return output, 0
	}
	output, code := run(map[string]string{"files": "good one.yaml\nbad.yaml\n", "flags": "--operation=create"})
	if code != 1 || !strings.Contains(output, "::error file=bad.yaml,line=1,title=Pod default/q is refused::") {
		t.Errorf("a pod without an image: exit code %d, output\n%s", code, output)
	}
	output, code = run(map[string]string{"files": "good one.yaml", "state": "state.yaml",
		"flags": "--namespace=shop\n--as=$(touch injected)"})
	if code != 0 || !strings.HasSuffix(output, "1 admitted, 0 refused, 0 failed\n") {
		t.Errorf("a good pod: exit code %d, output\n%s", code, output)
	}
	if _, err := os.Stat(filepath.Join(work, "injected")); err == nil {
		t.Error("an input was run as a command")
	}
}

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

// TestPreCommitHooks runs the hooks as pre-commit does: the entry, and the arguments of a
// configuration.
func TestPreCommitHooks(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var hooks []hook
	if err := yaml.UnmarshalStrict(data, &hooks); err != nil {
		t.Fatal(err)
	}
	build(t)
	work := t.TempDir()
	write(t, filepath.Join(work, "good", "pod.yaml"), fmt.Sprintf(pod, "nginx"))
	write(t, filepath.Join(work, "bad", "pod.yaml"), fmt.Sprintf(pod, "''"))
	write(t, filepath.Join(work, "suite", "pods.yaml"), `apiVersion: gatehouse.dev/v1alpha1
kind: AdmissionTest
spec:
  cases:
  - name: an image is required
    object: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}
    expect: {verdict: Refused}
`)
	runs := map[string][]struct {
		args []string
		code int
	}{
		"gatehouse-review": {{[]string{"--filename=good"}, 0}, {[]string{"--filename=bad"}, 1}, {nil, 2}},
		"gatehouse-test":   {{[]string{"suite"}, 0}, {[]string{"none"}, 2}},
	}
	for _, h := range hooks {
		if h.ID == "" || h.Name == "" || h.Language != "golang" || h.PassFilenames == nil || *h.PassFilenames {
			t.Errorf("hook %+v", h)
		}
		if len(runs[h.ID]) == 0 {
			t.Errorf("hook %s is not run", h.ID)
		}
		for _, run := range runs[h.ID] {
			entry := strings.Fields(h.Entry)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, entry[0]), append(entry[1:], run.args...)...)
			cmd.Dir = work
			out, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != run.code {
				t.Errorf("%s %v: exit code %d, want %d (%v)\n%s", h.Entry, run.args, got, run.code, err, out)
			}
		}
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
