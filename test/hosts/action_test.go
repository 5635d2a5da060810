// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"fmt"
	"maps"
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
		Using string       `json:"using"`
		Steps []actionStep `json:"steps"`
	} `json:"runs"`
}

type actionStep struct {
	Name  string            `json:"name"`
	ID    string            `json:"id"`
	If    string            `json:"if"`
	Uses  string            `json:"uses"`
	With  map[string]string `json:"with"`
	Shell string            `json:"shell"`
	Env   map[string]string `json:"env"`
	Run   string            `json:"run"`
}

var (
	// expression matches an expression of GitHub's, condition a step's condition.
	expression = regexp.MustCompile(`\$\{\{ ([a-z._-]+) \}\}`)
	condition  = regexp.MustCompile(`^([a-z._-]+) (==|!=) ''$`)
)

// readAction returns action.yml.
func readAction(t *testing.T) action {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.UnmarshalStrict(data, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// actionRun runs an action as GitHub does, except for steps that are actions.
type actionRun struct {
	path, work, temp string
	context          map[string]string // what else expressions can name
	env              []string          // beside that of the test
	used             []string          // the actions whose steps were reached
	ran              []string          // the names of the steps that ran
}

// run runs the steps with these inputs, until one fails.
func (r *actionRun) run(t *testing.T, a action, inputs map[string]string) (output string, code int) {
	t.Helper()
	values := map[string]string{"github.action_path": r.path, "runner.temp": r.temp, "github.token": "",
		"github.event.pull_request.number": "", "github.event.pull_request.head.sha": ""}
	maps.Copy(values, r.context)
	for name, input := range a.Inputs {
		values["inputs."+name] = input.Default
	}
	for name, value := range inputs {
		values["inputs."+name] = value
	}
	expand := func(step actionStep, text string) string {
		return expression.ReplaceAllStringFunc(text, func(e string) string {
			name := expression.FindStringSubmatch(e)[1]
			value, ok := values[name]
			if !ok && !strings.HasPrefix(name, "steps.") {
				t.Errorf("step %s: there is no %s", step.Name, e)
			}
			return value
		})
	}
	for i, step := range a.Runs.Steps {
		if step.If != "" {
			parts := condition.FindStringSubmatch(step.If)
			if parts == nil {
				t.Fatalf("step %s: the test can't evaluate the condition %s", step.Name, step.If)
			}
			if (values[parts[1]] == "") != (parts[2] == "==") {
				continue
			}
		}
		if step.Uses != "" {
			r.used = append(r.used, strings.Split(step.Uses, "@")[0])
			continue
		}
		r.ran = append(r.ran, step.Name)
		outputs := filepath.Join(r.temp, fmt.Sprintf("output-%d", i))
		// Source: as GitHub's runner calls bash for `shell: bash`.
		cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Dir, cmd.Env = r.work, append(os.Environ(), append(r.env, "GITHUB_OUTPUT="+outputs)...)
		for name, value := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+expand(step, value))
		}
		out, err := cmd.CombinedOutput()
		output += string(out)
		if err != nil {
			return output, cmd.ProcessState.ExitCode()
		}
		lines, err := os.ReadFile(outputs)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(lines)) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			values["steps."+step.ID+".outputs."+name] = value
		}
		os.Remove(outputs)
	}
	return output, 0
}

// TestActionFile checks what GitHub wants to know of the action, and that its scripts have no text of its users.
func TestActionFile(t *testing.T) {
	a := readAction(t)
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
	for _, step := range a.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			t.Errorf("step %s: an expression within a script is run as part of it", step.Name)
		}
		if (step.Uses == "") == (step.Run == "") || (step.Run != "") != (step.Shell == "bash") {
			t.Errorf("step %s is neither an action nor a script of bash: %+v", step.Name, step)
		}
	}
}

// TestActionBuilds runs the action as at a branch: it builds the program and reviews.
func TestActionBuilds(t *testing.T) {
	needs.Programs(t, "bash")
	a := readAction(t)
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
	r := &actionRun{path: root(t), work: work, temp: temp}
	output, code := r.run(t, a, map[string]string{"files": "good one.yaml\nbad.yaml\n", "flags": "--operation=create"})
	if code != 1 || !strings.Contains(output, "::error file=bad.yaml,line=1,title=Pod default/q is refused::") {
		t.Errorf("a pod without an image: exit code %d, output\n%s", code, output)
	}
	if !slices.Equal(r.used, []string{"actions/setup-go"}) || !slices.Contains(r.ran, "Build Gatehouse") {
		t.Errorf("the action used %v and ran %v", r.used, r.ran)
	}
	output, code = r.run(t, a, map[string]string{"files": "good one.yaml", "state": "state.yaml",
		"flags": "--namespace=shop\n--as=$(touch injected)"})
	if code != 0 || !strings.HasSuffix(output, "1 admitted, 0 refused, 0 failed\n") {
		t.Errorf("a good pod: exit code %d, output\n%s", code, output)
	}
	if _, err := os.Stat(filepath.Join(work, "injected")); err == nil {
		t.Error("an input was run as a command")
	}
}
