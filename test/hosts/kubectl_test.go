// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/test/program"
)

// TestKubectlPlugin calls the program as a plugin of kubectl: it works, and its help, examples and errors name
// the command that the user typed.
func TestKubectlPlugin(t *testing.T) {
	build(t)
	kubectl, err := program.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	for _, name := range []string{"kubectl-gatehouse", "kubectl_complete-gatehouse"} {
		if err := os.Symlink(filepath.Join(bin, "gatehouse"), filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	work := t.TempDir()
	write(t, filepath.Join(work, "good.yaml"), fmt.Sprintf(pod, "nginx"))
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), kubectl, args...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "KUBECONFIG=none")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("plugin", "list"); code != 0 || !strings.Contains(out, filepath.Join(tools, "kubectl-gatehouse")) {
		t.Errorf("kubectl plugin list: exit code %d\n%s", code, out)
	}
	if out, code := run("__complete", "gatehouse", "review", "--output", "mark"); code != 0 || !strings.Contains(out, "\nmarkdown\n") {
		t.Errorf("kubectl's completion: exit code %d\n%s", code, out)
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "  kubectl gatehouse review ", 0},
		{[]string{"--help"}, "  kubectl gatehouse [command]", 0},
		{[]string{"review", "--help"}, "  kubectl gatehouse review ", 0},
		{[]string{"review", "good.yaml"}, "1 admitted, 0 refused, 0 failed\n", 0},
		{[]string{"lint", "good.yaml"}, "", 0},
		{[]string{"revue"}, "(see 'kubectl gatehouse --help')", 2},
		{[]string{"why", "--nonsense"}, "(see 'kubectl gatehouse why --help')", 2},
		{[]string{"audit", "--nonsense"}, "(see 'kubectl gatehouse audit --help')", 2},
	} {
		if out, code := run(append([]string{"gatehouse"}, c.args...)...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("kubectl gatehouse %q: exit code %d, want %d and %q, output\n%s", c.args, code, c.code, c.want, out)
		}
	}
	// Each command's help has no line that calls the program by another name.
	other := regexp.MustCompile(`(?m)^.*(?:^|[^l]) gatehouse (?:why|review|lint|audit) .*$`)
	for _, command := range []string{"why", "review", "lint", "audit"} {
		out, code := run("gatehouse", command, "--help")
		if line := other.FindString(out); code != 0 || line != "" || !strings.Contains(out, "kubectl gatehouse "+command) {
			t.Errorf("kubectl gatehouse %s --help: exit code %d, line %q", command, code, line)
		}
	}
}
