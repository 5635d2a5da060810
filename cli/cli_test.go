// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gatehouse.dev/cmd/gatehouse/compiled"
)

// runCommand is what the command says, and its exit code.
func runCommand(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), compiled.Plugins, args, &out, &errs)
	return out.String(), errs.String(), code
}

func TestWhatIsMisspelt(t *testing.T) {
	const see = " (see 'gatehouse --help')\n"
	for args, want := range map[string]string{
		"serv":       `unknown command "serv" for "gatehouse", did you mean "serve"?` + see,
		"Plugins":    `unknown command "Plugins" for "gatehouse", did you mean "plugins"?` + see,
		"frobnicate": `unknown command "frobnicate" for "gatehouse"` + see,
		"help serv":  `unknown command "serv" for "gatehouse", did you mean "serve"?` + see,
		"completion bahs": `unknown command "bahs" for "gatehouse completion", did you mean "bash"? (see 'gatehouse completion ` +
			`--help')` + "\n",
		"completion zs": `unknown command "zs" for "gatehouse completion" (see 'gatehouse completion --help')` +
			"\n",
		"version 1": `gatehouse version takes no arguments, got ["1"] (see 'gatehouse version --help')` +
			"\n",
		"plugins --outptu=json": `unknown flag: --outptu, did you mean "--output"? (see 'gatehouse plugins ` +
			`--help')` + "\n",
		"plugins --frobnicate": "unknown flag: --frobnicate (see 'gatehouse plugins --help')\n",
		"plugins -x":           "unknown shorthand flag: 'x' in -x (see 'gatehouse plugins --help')\n",
		"webhook uninstal": `gatehouse webhook takes no arguments, got ["uninstal"], did you mean "uninstall"? ` +
			"(see 'gatehouse webhook --help')\n",
		"webhook --plugins=AlwaysPulImages --url=https://a:1": `--plugins: there is no plugin "AlwaysPulImages", did ` +
			`you mean "AlwaysPullImages"? gatehouse plugins lists those that there are` + "\n",
		"plugins --enable-admission-plugins=LimitRangr": `enable-admission-plugins plugin "LimitRangr" is unknown, ` +
			`did you mean "LimitRanger"?` + "\n",
		"plugins --disable_admission_plugins=Prioritty": `disable-admission-plugins plugin "Prioritty" is unknown, ` +
			`did you mean "Priority"?` + "\n",
	} {
		stdout, stderr, code := runCommand(t, strings.Fields(args)...)
		if want := "gatehouse: " + want; stdout != "" || stderr != want || code != ExitUsage {
			t.Errorf("%s: got %q, %q, exit code %d, want %q, %d", args, stdout, stderr, code, want, ExitUsage)
		}
	}
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "complete -o default", "zsh": "#compdef gatehouse", "fish": "complete -c gatehouse",
		"powershell": "Register-ArgumentCompleter",
	} {
		stdout, stderr, code := runCommand(t, "completion", shell)
		if !strings.Contains(stdout, want) || stderr != "" || code != 0 {
			t.Errorf("%s: got %d bytes without %q, %q, exit code %d", shell, len(stdout), want, stderr, code)
		}
	}
	if stdout, _, code := runCommand(t, "__complete", "serve", "--enable-adm"); code != 0 ||
		!strings.Contains(stdout, "--enable-admission-plugins") {
		t.Errorf("--enable-adm completes to %q, exit code %d", stdout, code)
	}
}

func TestVersion(t *testing.T) {
	flag, _, _ := runCommand(t, "--version")
	command, _, _ := runCommand(t, "version")
	if flag != command || !strings.Contains(flag, "\nkubernetes ") {
		t.Errorf("--version says %q, version %q", flag, command)
	}
}

// The help of every command has examples, and no line is longer than a terminal of 100 columns.
func TestHelp(t *testing.T) {
	var commands func(c *cobra.Command, path []string)
	commands = func(c *cobra.Command, path []string) {
		stdout, stderr, code := runCommand(t, append(path, "--help")...)
		if code != 0 || stderr != "" {
			t.Errorf("%v: exit code %d, %s", path, code, stderr)
		}
		if !strings.Contains(stdout, "Examples:\n") {
			t.Errorf("%v: the help has no examples", path)
		}
		for line := range strings.Lines(stdout) {
			if len(strings.TrimRight(line, "\n")) > 100 {
				t.Errorf("%v: %d columns: %s", path, len(line)-1, line)
			}
		}
		for _, part := range c.Commands() {
			if !part.Hidden {
				commands(part, append(path[:len(path):len(path)], part.Name()))
			}
		}
	}
	root := newRoot(compiled.Plugins)
	addBuiltIn(root)
	commands(root, nil)
}

// Without a command the program says in a few lines what it can do, and each command line there works.
func TestWelcome(t *testing.T) {
	stdout, stderr, code := runCommand(t)
	if code != 0 || stderr != "" || strings.Count(stdout, "\n") > 10 {
		t.Fatalf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	root := newRoot(compiled.Plugins)
	examples := 0
	for line := range strings.Lines(stdout) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
		example, found := strings.CutPrefix(line, "  gatehouse ")
		if !found {
			continue
		}
		examples++
		words := strings.Fields(example)
		c, _, err := root.Find(words[:1])
		if err != nil || c == root {
			t.Errorf("there is no command %s", words[0])
			continue
		}
		if strings.HasPrefix(words[1], "-") && c.Flags().ShorthandLookup(words[1][1:]) == nil {
			t.Errorf("%s has no flag %s", words[0], words[1])
		}
	}
	if examples != 3 {
		t.Errorf("%d command lines, want 3", examples)
	}
	// README.md says which command is for whom, and the text has all of them.
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, modes, _ := strings.Cut(string(readme), "\n| you | run | and get |\n")
	modes, _, _ = strings.Cut(modes, "\n\n")
	named := regexp.MustCompile("`gatehouse ([a-z]+)`").FindAllStringSubmatch(modes, -1)
	if len(named) < 8 {
		t.Fatalf("README.md names %d commands, want 8 or more:\n%s", len(named), modes)
	}
	for _, name := range named {
		if !regexp.MustCompile(`(gatehouse |\(|,\s)` + name[1] + `\b`).MatchString(stdout) {
			t.Errorf("it doesn't name %s:\n%s", name[1], stdout)
		}
	}
}

// namedFlag is a flag in a text.
var namedFlag = regexp.MustCompile(`--([a-z][a-z-]+)`)

// The help of a command with many flags has those that are used most, in their order, and says how to see
// all. All of them are there, too, with the whole description and all examples.
func TestHelpAll(t *testing.T) {
	for command, first := range map[string]string{"serve": "--data-dir", "controllers": "--kubeconfig",
		"snapshot": "--context", "webhook": "--plugins", "review": "-f, --filename", "test": "--run"} {
		c, _, err := newRoot(compiled.Plugins).Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		few, _, _ := runCommand(t, command, "--help")
		if _, flags, _ := strings.Cut(few, "Flags:\n"); !strings.HasPrefix(strings.TrimSpace(flags), first) {
			t.Errorf("the first flag of %s --help isn't %s:\n%.100s", command, first, flags)
		}
		if want := "'gatehouse " + command + " --help=all' says more"; !strings.Contains(few, want) {
			t.Errorf("%s --help doesn't say %q:\n%s", command, want, few)
		}
		short, _, _ := runCommand(t, command, "-h")
		named, _, _ := runCommand(t, "help", command)
		if short != few || named != few {
			t.Errorf("-h and help %s show something else than --help", command)
		}
		all, stderr, code := runCommand(t, command, "--help=all")
		if code != 0 || stderr != "" {
			t.Errorf("%s --help=all: exit code %d, %s", command, code, stderr)
		}
		for line := range strings.Lines(all) {
			if width := len(strings.TrimRight(line, "\n")); width > 100 {
				t.Errorf("%s --help=all: %d columns: %s", command, width, line)
			}
		}
		for _, want := range []string{c.Example, "\nGlobal flags:\n\n      --color when"} {
			if !strings.Contains(all, want) {
				t.Errorf("%s --help=all doesn't have %q", command, want)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(all, "--"+f.Name) {
				t.Errorf("%s --help=all doesn't show --%s", command, f.Name)
			}
		})
	}
	if _, stderr, code := runCommand(t, "serve", "--help=some"); code != ExitUsage ||
		!strings.Contains(stderr, "must be all") {
		t.Errorf("--help=some: exit code %d, %q", code, stderr)
	}
	for _, command := range []string{"version", "backup"} { // which have few flags
		all, stderr, code := runCommand(t, command, "--help=all")
		if code != 0 || !strings.Contains(all, " flags:\n\n") || !strings.Contains(all, "--color") {
			t.Errorf("%s --help=all: exit code %d, %s%s", command, code, stderr, all)
		}
	}
	if offered, _, _ := runCommand(t, "__complete", "serve", "--help="); !strings.HasPrefix(offered, "all\n") {
		t.Errorf("--help= completes to %q", offered)
	}
}

// --color=always colors what isn't written to a terminal, and formats for programs never have colors.
func TestColor(t *testing.T) {
	inFolder(t, map[string]string{"hook.yaml": `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: all}
webhooks:
- name: all.example.com
  clientConfig: {url: "https://hooks.example.com"}
  rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`})
	plain, _, _ := runCommand(t, "lint", "hook.yaml")
	colored, _, _ := runCommand(t, "lint", "hook.yaml", "--color=always")
	if !strings.Contains(colored, "\x1b[31merror\x1b[0m") || strings.Contains(plain, "\x1b") {
		t.Errorf("with --color=always:\n%q\nwithout:\n%q", colored, plain)
	}
	if got := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(colored, ""); got != plain {
		t.Errorf("without its colors it is\n%s\nwant\n%s", got, plain)
	}
	for _, format := range []string{"json", "yaml", "junit", "sarif", "github"} {
		if out, _, _ := runCommand(t, "lint", "hook.yaml", "--color=always", "-o", format); strings.Contains(out, "\x1b") {
			t.Errorf("-o %s has colors: %q", format, out)
		}
	}
	if _, stderr, code := runCommand(t, "lint", "hook.yaml", "--color=blue"); code != ExitUsage ||
		!strings.Contains(stderr, "must be one of auto, always, never") {
		t.Errorf("--color=blue: exit code %d, %q", code, stderr)
	}
}

// Tables fit a terminal of 120 columns.
func TestPluginsWidth(t *testing.T) {
	for _, args := range [][]string{{"plugins"}, {"plugins", "-o", "wide"}} {
		stdout, _, _ := runCommand(t, args...)
		for line := range strings.Lines(stdout) {
			if width := len(strings.TrimRight(line, "\n")); width > 120 {
				t.Errorf("%q: %d columns: %s", args, width, line)
			}
		}
	}
}

// Underscores in flags are hyphens, as in every Kubernetes command.
func TestUnderscores(t *testing.T) {
	stdout, stderr, code := runCommand(t, "plugins", "--admission_control=LimitRanger", "--output=json")
	if code != 0 || strings.Count(stdout, `"enabled": true`) != 1 {
		t.Errorf("got %s%s, exit code %d", stdout, stderr, code)
	}
	serve, _, err := newRoot(compiled.Plugins).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"resource_quota_sync_period", "feature_gates", "runtime_config"} {
		if serve.Flags().Lookup(flag) == nil {
			t.Errorf("there is no --%s", flag)
		}
	}
}

// A gate that has become plain behaviour is taken, with a warning.
func TestFormerGate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it is not to start
	var out, errs bytes.Buffer
	Run(ctx, compiled.Plugins, []string{"serve", "--data-dir=" + t.TempDir(), "--secure-port=0",
		"--feature-gates=ExpandPersistentVolumes=true"}, &out, &errs)
	const want = "gatehouse: warning: feature gate ExpandPersistentVolumes is always on: leave it out\n"
	if errs.String() != want {
		t.Errorf("got %q, want %q", errs.String(), want)
	}
}
