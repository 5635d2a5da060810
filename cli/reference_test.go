// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gatehouse.dev/cmd/gatehouse/compiled"
)

var update = flag.Bool("update", false, "write docs/commands.md, docs/serve-flags.md and docs/schemas/flags.json")

const (
	commandsBeginning = `# Commands

Each command with its flags, made from the commands' own help. [flags.md](flags.md) has the flags by purpose,
and [exit-codes.md](exit-codes.md) what the commands end with.

`
	serveBeginning = `# Flags of gatehouse serve

All flags of ` + "`gatehouse serve`" + `, made from its own help, ` + "`gatehouse serve --help=all`" + `. [flags.md](flags.md)
has those that are used most, by purpose.

`
)

// aloneVariable is in the environment of a process that runs TestReference alone.
const aloneVariable = "GATEHOUSE_TEST_ALONE"

// TestReference checks that docs/commands.md and docs/serve-flags.md are made from the commands. It runs in a
// process of its own: other tests set flags whose values, shared by a process, would be shown as defaults.
func TestReference(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	if os.Getenv(aloneVariable) == "" {
		alone := program(t, "-test.run=^TestReference$", fmt.Sprintf("-update=%t", *update))
		alone.Env = append(os.Environ(), aloneVariable+"=1")
		if out, err := alone.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	root := newRoot(compiled.Plugins)
	addBuiltIn(root)
	var commands, serve strings.Builder
	commands.WriteString(commandsBeginning)
	serve.WriteString(serveBeginning)
	for _, c := range root.Commands() {
		// Nobody calls a hidden command, and help shows these texts.
		if c.Hidden || c.Name() == "help" {
			continue
		}
		fmt.Fprintf(&commands, "## %s\n\n", c.CommandPath())
		for paragraph := range strings.SplitSeq(cmp.Or(c.Long, c.Short), "\n\n") {
			fmt.Fprintf(&commands, "%s\n\n", asMarkdown(paragraph))
		}
		fmt.Fprintf(&commands, "```text\n%s\n```\n\n", c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&commands, "Examples:\n\n```text\n%s\n```\n\n", withoutIndent(c.Example))
		}
		if c.Name() == "serve" {
			commands.WriteString("[All flags of gatehouse serve](serve-flags.md) have a page of their own.\n\n")
			writeFlags(t, &serve, c, "##")
			continue
		}
		writeFlags(t, &commands, c, "###")
	}
	for name, want := range map[string]string{"commands.md": commands.String(), "serve-flags.md": serve.String()} {
		file := "../docs/" + name
		want = strings.TrimRight(want, "\n") + "\n"
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("docs/%s isn't what the commands say: run go test ./cli -run=TestReference -update (%v)", name, err)
		}
	}
}

var (
	// flagGroup matches the title of a group of flags in a help text, flagName the flag of a line.
	flagGroup = regexp.MustCompile(`^([A-Z].*) flags:$`)
	flagName  = regexp.MustCompile(`^ {2,6}(?:-\w, )?--([a-z0-9-]+)\b`)
)

// writeFlags writes the flags of a command as its help has them: by group, and in the same order.
func writeFlags(t *testing.T, w *strings.Builder, c *cobra.Command, level string) {
	t.Helper()
	help := "--help"
	if f := c.Flags().Lookup("help"); f != nil {
		help = "--help=all"
	}
	var shown, stderr bytes.Buffer
	if code := Run(t.Context(), compiled.Plugins, []string{c.Name(), help}, &shown, &stderr); code != 0 {
		t.Fatalf("%s %s: exit code %d: %s", c.Name(), help, code, stderr.String())
	}
	_, flags, _ := strings.Cut(shown.String(), "\nUsage:\n")
	written := 0
	for line := range strings.Lines(flags) {
		line = strings.TrimRight(line, " \n")
		if group := flagGroup.FindStringSubmatch(line); group != nil {
			fmt.Fprintf(w, "%s %s flags of %s\n\n", level, group[1], c.Name())
		}
		name := flagName.FindStringSubmatch(line)
		if name == nil || name[1] == "help" {
			continue
		}
		f := cmp.Or(c.Flags().Lookup(name[1]), c.InheritedFlags().Lookup(name[1]))
		if f == nil {
			continue // an example names a flag at the beginning of a line
		}
		writeFlag(w, c, f, level+"#")
		written++
	}
	if named := strings.Count(flags, "\n      --"); written < named/2 {
		t.Errorf("%s: %d flags are written, and its help has %d", c.Name(), written, named)
	}
}

// many is the number of lines that aren't repeated for each command: those of the feature gates.
const many = 30

func writeFlag(w *strings.Builder, c *cobra.Command, f *pflag.Flag, level string) {
	kind, usage := pflag.UnquoteUsage(f)
	title := "--" + f.Name
	if f.Shorthand != "" {
		title = "-" + f.Shorthand + ", " + title
	}
	fmt.Fprintf(w, "%s %s\n\n", level, title)
	first, rest, _ := strings.Cut(strings.TrimSpace(usage), "\n")
	fmt.Fprintf(w, "%s\n", asMarkdown(first))
	if f.Deprecated != "" {
		fmt.Fprintf(w, "Deprecated: %s\n", asMarkdown(f.Deprecated))
	}
	w.WriteString("\n")
	if strings.Count(rest, "\n") > many && c.Name() != "serve" {
		fmt.Fprintf(w, "They are listed [for gatehouse serve](serve-flags.md#--%s).\n\n", f.Name)
		rest = ""
	}
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(w, "- %s\n", asMarkdown(line))
		}
	}
	if rest != "" {
		w.WriteString("\n")
	}
	switch value := f.DefValue; {
	case value == "" || value == "[]" || value == "false" && kind == "":
		fmt.Fprintf(w, "Type: `%s`\n\n", cmp.Or(kind, "bool"))
	default:
		fmt.Fprintf(w, "Type: `%s`, default: `%s`\n\n", cmp.Or(kind, "bool"), value)
	}
}

// asMarkdown returns text that Markdown shows as it is.
func asMarkdown(text string) string {
	return regexp.MustCompile("[\\\\*_<>\\[\\]`]").ReplaceAllString(text, `\$0`)
}

// withoutIndent returns an example without the two spaces before each line.
func withoutIndent(example string) string {
	return regexp.MustCompile(`(?m)^  `).ReplaceAllString(example, "")
}
