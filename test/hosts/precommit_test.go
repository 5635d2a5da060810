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
		language, entry := "script", "action/hook "+command
		if system {
			language, entry = "system", "gatehouse "+command
		}
		if h.Name == "" || h.Description == "" || h.Language != language || h.PassFilenames == nil || *h.PassFilenames ||
			h.Entry != entry {
			t.Errorf("hook %+v", h)
		}
		for _, run := range hookRuns[command] {
			entry := strings.Fields(h.Entry)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "gatehouse"), append(entry[1:], run.args...)...)
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

// preCommit is a repository whose hooks pre-commit runs.
type preCommit struct {
	t    *testing.T
	work string
	env  []string
}

// newPreCommit makes the repository. Its pre-commit has cloned nothing yet.
func newPreCommit(t *testing.T, env ...string) *preCommit {
	t.Helper()
	needs.Programs(t, "pre-commit", "git")
	p := &preCommit{t: t, work: t.TempDir()}
	p.env = append(os.Environ(), "PRE_COMMIT_HOME="+t.TempDir(), "HOME="+t.TempDir(), "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=t", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=t@example.com")
	p.env = append(p.env, env...)
	readHooks(t, p.work)
	p.must(p.work, "git", "init", "--quiet")
	return p
}

func (p *preCommit) run(dir string, command ...string) (string, error) {
	cmd := exec.CommandContext(p.t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, p.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *preCommit) must(dir string, command ...string) string {
	p.t.Helper()
	out, err := p.run(dir, command...)
	if err != nil {
		p.t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(out)
}

// hooks runs these hooks of a repository on all files.
func (p *preCommit) hooks(repository, rev, hooks string) (string, error) {
	p.t.Helper()
	write(p.t, filepath.Join(p.work, ".pre-commit-config.yaml"),
		fmt.Sprintf("repos:\n- repo: %s\n  rev: %s\n  hooks:\n%s", repository, rev, hooks))
	p.must(p.work, "git", "add", ".")
	return p.run(p.work, "pre-commit", "run", "--all-files", "--color=never", "--verbose")
}

// TestPreCommit runs pre-commit in a repository whose configuration has the hooks of an installed program, at
// a commit with the hooks of this directory.
func TestPreCommit(t *testing.T) {
	p, hooks := newPreCommit(t, "PATH="+bin+":"+os.Getenv("PATH")), t.TempDir()
	build(t)
	text, err := os.ReadFile(filepath.Join(root(t), ".pre-commit-hooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(hooks, ".pre-commit-hooks.yaml"), string(text))
	p.must(hooks, "git", "init", "--quiet")
	p.must(hooks, "git", "add", ".")
	p.must(hooks, "git", "commit", "--quiet", "--message=hooks")
	out, err := p.hooks(hooks, p.must(hooks, "git", "rev-parse", "HEAD"), `  - id: gatehouse-lint-system
    args: [good]
  - id: gatehouse-test-system
    args: [suite]
  - id: gatehouse-review-system
    args: [--filename=bad]
`)
	if err == nil || !regexp.MustCompile(`(?s)gatehouse lint\.+Passed\n.*gatehouse test\.+Passed\n.*gatehouse review\.+Failed\n.*`+
		`exit code: 1\n.*refused +Pod default/p `).MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// goStandIn stands in for go. It builds a program that prints its arguments.
const goStandIn = `#!/bin/sh
[ "$1 $2 $4 $6" = "build -C -o ./cmd/gatehouse" ] && [ -e "$3/action/hook" ] || exit 3
printf '#!/bin/sh\necho built "$@"\n' >"$5/gatehouse"
chmod +x "$5/gatehouse"
`

// TestPreCommitDownloads runs the hooks that download a release, and verify it, or build.
func TestPreCommitDownloads(t *testing.T) {
	const hooks = "  - id: gatehouse-lint\n    args: [good]\n"
	tool := func(r *releases, name string) string {
		return filepath.Join(strings.Split(r.env[len(r.env)-1][5:], ":")[0], name)
	}
	noCosign := func(r *releases) {
		if err := os.Remove(tool(r, "cosign")); err != nil {
			r.t.Fatal(err)
		}
	}
	withGo := func(r *releases) {
		write(r.t, tool(r, "go"), goStandIn)
		if err := os.Chmod(tool(r, "go"), 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	forge := func(r *releases) { r.files[download+archiveName()] = archive(r.t, "#!/bin/sh\necho evil\n") }
	for _, c := range []struct {
		name, rev string
		change    []func(*releases)
		want      string
		fails     bool
	}{
		{"release", "v1.2.3", nil, "released lint good", false},
		{"forged release", "v1.2.3", []func(*releases){withGo, forge}, "has the checksum", true},
		{"no release", "", []func(*releases){withGo}, "built lint good", false},
		{"no cosign", "v1.2.3", []func(*releases){noCosign, withGo}, "built lint good", false},
		{"neither cosign nor Go", "v1.2.3", []func(*releases){noCosign}, "install cosign", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReleases(t)
			for _, change := range c.change {
				change(r)
			}
			p := newPreCommit(t, append(r.env, "PATH="+withoutGo(t, tool(r, "")))...)
			rev := c.rev
			if rev == "" {
				rev, _, _ = strings.Cut(p.must(p.work, "git", "ls-remote", r.server.URL, "HEAD"), "\t")
			}
			out, err := p.hooks(r.server.URL, rev, hooks)
			if (err != nil) != c.fails || !strings.Contains(out, c.want) || strings.Contains(out, "evil") {
				t.Errorf("%v, want %q\n%s", err, c.want, out)
			}
			if strings.HasPrefix(c.want, "released") && !strings.Contains(out, r.commit) {
				t.Errorf("cosign wasn't asked for the commit\n%s", out)
			}
			// The program is kept, and nothing else.
			r.server.Close()
			if out, err := p.hooks(r.server.URL, rev, hooks); (err != nil) != c.fails || !c.fails && !strings.Contains(out, c.want) {
				t.Errorf("without the host: %v\n%s", err, out)
			}
		})
	}
}

// withoutGo returns a PATH of first and of the programs that hooks need, without go.
func withoutGo(t *testing.T, first string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"pre-commit", "git", "python3", "bash", "sh", "env", "curl", "basename", "sed", "mkdir", "mktemp", "mv", "rm", "uname", "awk",
		"tr", "cut", "dirname", "sha256sum", "tar", "gzip", "cat", "chmod"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return first + ":" + dir
}
