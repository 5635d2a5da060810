// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// The common flags are a table: the first sentence of each, without types and lists that are too long.
func TestFlagTable(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.StringSliceP("filename", "f", nil, "The files, or - for the standard input.")
	fs.Int("limit", 3, "How many are shown at most, with the newest one first.")
	fs.Bool("a-name-that-is-longer-than-its-column", false, "Say so.")
	const want = `  -f, --filename strings  The files, or - for the standard
                          input.
      --limit int         How many are shown at most, with
                          the newest one first. (default 3)
      --a-name-that-is-longer-than-its-column
                          Say so.
`
	if diff := cmp.Diff(want, flagTable(fs, 60)); diff != "" {
		t.Error(diff)
	}
	for usage, want := range map[string]string{
		"One. Two.":       "One.",
		"One: two.\nMore": "One: two.",
		"On (default " + strings.Repeat("x, ", 30) + "y). More.": "On.",
		"On (default x). More.":                                  "On (default x).",
	} {
		if got := firstSentence(usage); got != want {
			t.Errorf("%q: got %q, want %q", usage, got, want)
		}
	}
}

// --help shows the common flags, and as many examples as a screen has room for. --help=all shows all.
func TestHelpOfCommonFlags(t *testing.T) {
	help := func(args ...string) string {
		c := &cobra.Command{Use: "do", Long: "Do it.\n\nMore about it.", Example: "  do a\n\n  do b\n\n  do c\n\n  do d",
			RunE: func(*cobra.Command, []string) error { return nil }}
		root := &cobra.Command{Use: "program", Long: "A program.", Example: "  program do"}
		root.AddCommand(c)
		Prepare(root)
		var groups cliflag.NamedFlagSets
		groups.FlagSet("common").String("often", "", "A flag that is used often. Or not.")
		groups.FlagSet("other").String("seldom", "", "A flag that is used seldom.")
		GroupFlags(c, groups, "often")
		var out bytes.Buffer
		if code := Run(t.Context(), root, args, &out, &out); code != 0 {
			t.Errorf("%q: exit code %d", args, code)
		}
		return out.String()
	}
	const few = `Do it.

Usage:
  program do [flags]

Flags:
      --often string  A flag that is used often.

Examples:
  do a

  do b

  do c

'program do --help=all' says more, with the other flags (1).
`
	if diff := cmp.Diff(few, help("do", "--help")); diff != "" {
		t.Error(diff)
	}
	all := help("do", "--help=all")
	for _, want := range []string{"More about it.", "Common flags:", "Or not.", "Other flags:", "--seldom", "Global flags:", "--color", "  do d\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("--help=all doesn't have %q:\n%s", want, all)
		}
	}
	if root := help("--help"); !strings.Contains(root, "\n  do ") || !strings.Contains(root, "      --color when") {
		t.Errorf("the root's help has no command or no flag:\n%s", root)
	}
}
