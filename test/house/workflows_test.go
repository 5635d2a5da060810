// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// These rules are about what an attacker can do with a workflow. actionlint, which CI runs as well, finds
// what GitHub wouldn't accept.
// Source: the audits of zizmor (docs.zizmor.sh): unpinned-uses, excessive-permissions, artipacked,
// template-injection, dangerous-triggers, cache-poisoning, secrets-inherit, overprovisioned-secrets,
// self-hosted-runner.

// A workflow has the parts of a workflow or of an action that the rules are about.
type workflow struct {
	On          any            `json:"true"` // the YAML of the library has on as a boolean
	Permissions any            `json:"permissions"`
	Defaults    defaults       `json:"defaults"`
	Jobs        map[string]job `json:"jobs"`
	Runs        struct {
		Steps []step `json:"steps"`
	} `json:"runs"`
}

type defaults struct {
	Run struct {
		Shell string `json:"shell"`
	} `json:"run"`
}

type job struct {
	RunsOn      any     `json:"runs-on"`
	Permissions any     `json:"permissions"`
	Timeout     float64 `json:"timeout-minutes"`
	Uses        string  `json:"uses"`
	Secrets     any     `json:"secrets"`
	Steps       []step  `json:"steps"`
}

type step struct {
	Uses  string         `json:"uses"`
	Run   string         `json:"run"`
	Shell string         `json:"shell"`
	With  map[string]any `json:"with"`
}

var (
	// usesLine matches a line that names an action, pinned one that has its commit and its version.
	usesLine = regexp.MustCompile(`(?m)^\s*(?:- )?uses: *(.*)$`)
	pinned   = regexp.MustCompile(`^([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
	// pipe matches a pipe in a script, and not an "or".
	pipe = regexp.MustCompile(`[^|]\|[^|]`)
	// dangerous are the events whose workflows have rights, and are started by anybody.
	dangerous = []string{"pull_request_target", "workflow_run", "issue_comment", "issues", "discussion", "discussion_comment"}
)

// workflowFaults returns what is wrong with the text of a workflow or of an action.
func workflowFaults(text string) []string {
	var faults []string
	report := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		return []string{err.Error()}
	}
	lines := usesLine.FindAllStringSubmatch(text, -1)
	for _, line := range lines {
		if !strings.HasPrefix(line[1], "./") && !pinned.MatchString(line[1]) {
			report("uses %s: pin it as OWNER/NAME@COMMIT # vX.Y.Z", line[1])
		}
	}
	if strings.Contains(text, "toJSON(secrets)") || strings.Contains(text, "toJson(secrets)") {
		report("all secrets are given away")
	}
	steps := w.Runs.Steps
	if len(w.Jobs) > 0 {
		if len(events(w.On)) == 0 {
			report("no events are known: write on without quotes")
		}
		for _, event := range events(w.On) {
			if slices.Contains(dangerous, event) {
				report("the event %s starts it with rights for anybody", event)
			}
		}
		switch granted, ok := w.Permissions.(map[string]any); {
		case !ok:
			report("permissions of the whole workflow are missing, or are not listed one by one")
		case slices.ContainsFunc(slices.Collect(maps.Values(granted)), func(right any) bool { return right != "read" && right != "none" }):
			report("the whole workflow may write: let a job do so")
		}
	}
	publishes, actions := false, 0
	for _, j := range w.Jobs {
		granted, _ := j.Permissions.(map[string]any)
		publishes = publishes || slices.ContainsFunc([]string{"contents", "packages", "id-token"},
			func(right string) bool { return granted[right] == "write" })
		if j.Uses != "" {
			actions++
		}
	}
	for name, j := range w.Jobs {
		_, listed := j.Permissions.(map[string]any)
		if j.Permissions != nil && !listed {
			report("job %s: list its permissions one by one", name)
		}
		if j.Timeout == 0 && j.Uses == "" {
			report("job %s has no timeout-minutes", name)
		}
		if j.Secrets == "inherit" {
			report("job %s gives all secrets away", name)
		}
		if runner := fmt.Sprint(j.RunsOn); j.Uses == "" && (strings.Contains(runner, "-latest") || strings.Contains(runner, "self-hosted")) {
			report("job %s runs on %s: name a version of GitHub's", name, runner)
		}
		// docs/trust.md verifies both the signature and the provenance.
		if slices.ContainsFunc(j.Steps, func(s step) bool { return strings.Contains(s.Run, "cosign sign") }) &&
			!slices.ContainsFunc(j.Steps, func(s step) bool { return strings.HasPrefix(s.Uses, "actions/attest-build-provenance@") }) {
			report("job %s signs something without its provenance", name)
		}
		// Others can write to a cache, so nothing from it may be published: not what another job built, either.
		for _, s := range j.Steps {
			if publishes && (strings.HasPrefix(s.Uses, "actions/cache") ||
				strings.HasPrefix(s.Uses, "actions/setup-") && s.With["cache"] != false) {
				report("job %s may publish what comes from a cache: %s", name, s.Uses)
			}
			// GitHub ends a pipe with the failure of its last command only, unless the shell is named.
			if pipe.MatchString(s.Run) && cmp.Or(s.Shell, w.Defaults.Run.Shell) != "bash" {
				report("job %s ignores failures within a pipe: set the default shell to bash", name)
			}
		}
		steps = append(steps, j.Steps...)
	}
	for _, s := range steps {
		if s.Uses != "" {
			actions++
		}
		if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
			report("actions/checkout leaves its credentials: set persist-credentials to false")
		}
		script, _ := s.With["script"].(string)
		if strings.Contains(s.Run+script, "${{") {
			report("an expression becomes part of a script: put it into env\n%s", s.Run+script)
		}
	}
	if actions != len(lines) {
		report("%d actions are named at the beginning of a line, and %d are used", len(lines), actions)
	}
	slices.Sort(faults)
	return faults
}

// events returns the events that start a workflow.
func events(on any) []string {
	switch on := on.(type) {
	case string:
		return []string{on}
	case []any:
		var names []string
		for _, name := range on {
			names = append(names, fmt.Sprint(name))
		}
		return names
	case map[string]any:
		return slices.Collect(maps.Keys(on))
	}
	return nil
}

// TestWorkflows checks the workflows and the action. It also checks that one commit has one version, as the
// comment beside it says.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(root + ".github/workflows/*")
	if err != nil || len(files) < 2 {
		t.Fatalf("the workflows are %v (%v)", files, err)
	}
	versions := map[string]string{} // by action and commit
	for _, file := range append(files, root+"action.yml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range workflowFaults(string(text)) {
			t.Errorf("%s: %s", file, fault)
		}
		for _, line := range usesLine.FindAllStringSubmatch(string(text), -1) {
			if parts := pinned.FindStringSubmatch(line[1]); parts != nil {
				if had := versions[parts[2]]; had != "" && had != parts[3] {
					t.Errorf("%s: %s is called %s and %s", file, parts[2], had, parts[3])
				}
				versions[parts[2]] = parts[3]
			}
		}
	}
}

// TestWorkflowFaults checks that each rule finds what it is about.
func TestWorkflowFaults(t *testing.T) {
	const good = `on: {push: {branches: [main]}}
permissions: {contents: read}
jobs:
  j:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {contents: write}
    steps:
    - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
      with: {persist-credentials: false}
    - uses: actions/setup-go@44694675825211faa026b3c33043df3e48a5fa00 # v6.0.0
      with: {cache: false}
    - run: echo "$NAME"
      env: {NAME: "${{ github.head_ref }}"}
`
	if faults := workflowFaults(good); len(faults) > 0 {
		t.Errorf("a good workflow: %q", faults)
	}
	for _, c := range []struct{ old, new, want string }{
		{"@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0", "@v5", "uses actions/checkout@v5"},
		{" # v5.0.0", "", "uses actions/checkout@08"},
		{" # v5.0.0", " # main", "uses actions/checkout@08"},
		{"{push: {branches: [main]}}", "pull_request_target", "the event pull_request_target"},
		{"{push: {branches: [main]}}", "[push, issue_comment]", "the event issue_comment"},
		{"{push: {branches: [main]}}", "{workflow_run: {workflows: [CI]}}", "the event workflow_run"},
		{"permissions: {contents: read}\n", "", "permissions of the whole workflow"},
		{"permissions: {contents: read}\n", "permissions: read-all\n", "permissions of the whole workflow"},
		{"permissions: {contents: read}\n", "permissions: {contents: write}\n", "the whole workflow may write"},
		{"permissions: {contents: write}", "permissions: write-all", "list its permissions"},
		{"    timeout-minutes: 5\n", "", "no timeout-minutes"},
		{"    timeout-minutes: 5\n", "    timeout-minutes: 5\n    secrets: inherit\n", "gives all secrets"},
		{"github.head_ref", "toJSON(secrets)", "all secrets are given away"},
		{"ubuntu-24.04", "ubuntu-latest", "runs on ubuntu-latest"},
		{"ubuntu-24.04", "[self-hosted, big]", "runs on [self-hosted big]"},
		{"{cache: false}", "{go-version: stable}", "from a cache: actions/setup-go"},
		{"actions/setup-go", "actions/cache/restore", "from a cache: actions/cache/restore"},
		{"{persist-credentials: false}", "{fetch-depth: 0}", "leaves its credentials"},
		{`echo "$NAME"`, "echo a | tee b", "ignores failures within a pipe"},
		{`echo "$NAME"`, "cosign sign --yes x", "signs something without its provenance"},
		{"on: {", "\"on\": {", "no events are known"},
		{"    - run: ", "    - {uses: x/y@v1}\n    - run: ", "2 actions are named at the beginning of a line, and 3 are used"},
		{`echo "$NAME"`, "echo ${{ github.head_ref }}", "an expression becomes part of a script"},
		{"{cache: false}", "{cache: false, script: \"f('${{ github.head_ref }}')\"}", "an expression becomes part of a script"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if faults := workflowFaults(text); text == good || !slices.ContainsFunc(faults, func(fault string) bool { return strings.Contains(fault, c.want) }) {
			t.Errorf("with %q for %q the faults are %q, want %q", c.new, c.old, faults, c.want)
		}
	}
}
