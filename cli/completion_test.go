// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/test/needs"
)

// commanded is in the environment of processes that are the command: the tests' binary is it, too.
const commanded = "GATEHOUSE_TEST_COMMAND"

func init() {
	if os.Getenv(commanded) != "" {
		Main(compiled.Plugins)
	}
}

// asBash has a shell complete a line at its end, as bash does when the tab key is pressed, and
// print what it offers. The first functions are what the script uses of a shell with a terminal and
// of the package bash-completion.
const asBash = `
compopt() { :; }
_init_completion() {
	words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
	cur=${words[cword]} prev=${words[cword - 1]}
}
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9
COMP_POINT=${#COMP_LINE}
__start_gatehouse
printf '%s\n' "${COMPREPLY[@]}"
`

// A real bash loads the script and completes words, flags and names of plugins by it.
func TestCompletionInBash(t *testing.T) {
	needs.Programs(t, "bash")
	dir := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "gatehouse")); err != nil {
		t.Fatal(err)
	}
	script, _, _ := runCommand(t, "completion", "bash", "--no-descriptions")
	file := filepath.Join(dir, "completion")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	writeTo(t, others, dir, ".kube", "config")
	for _, tt := range []struct {
		line, want, not string
	}{
		{"gatehouse ", "webhook", "nothing"},
		{"gatehouse ser", "serve", "review"},
		{"gatehouse serve --enable-adm", "--enable-admission-plugins", "--secure-port"},
		{"gatehouse serve --enable-admission-plugins=AlwaysP", "AlwaysPullImages", "AlwaysDeny"},
		{"gatehouse serve --enable-admission-plugins Name", "NamespaceAutoProvision", "NamespaceLifecycle"},
		{"gatehouse serve --disable-admission-plugins=Name", "NamespaceLifecycle", "NamespaceExists"},
		{"gatehouse serve --enable-admission-plugins=AlwaysPullImages,Always",
			"AlwaysPullImages,AlwaysDeny", "AlwaysPullImages,AlwaysPullImages"},
		{"gatehouse plugins --admission-control=Limit", "LimitRanger", "Priority"},
		{"gatehouse review --enable-admission-plugins=AlwaysP", "AlwaysPullImages", "AlwaysDeny"},
		{"gatehouse webhook --plugins=AlwaysP", "AlwaysPullImages", "NamespaceLifecycle"},
		{"gatehouse controllers --controllers=work", "workloads", "namespace-controller"},
		{"gatehouse help comp", "completion", "serve"},
		{"gatehouse explain AlwaysP", "AlwaysPullImages", "AlwaysDeny"},
		{"gatehouse why --context=", "mixed", "--context"},
		{"gatehouse audit --context mi", "mixed", "prod"},
	} {
		command := exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-c", asBash, "bash", file},
			strings.Split(tt.line, " ")...)...)
		command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, commanded + "=1"}
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", tt.line, err, out)
		}
		offered := strings.Fields(string(out))
		if !slices.Contains(offered, tt.want) || slices.Contains(offered, tt.not) {
			t.Errorf("%q is offered %q, with %s and without %s", tt.line, offered, tt.want, tt.not)
		}
	}
}
