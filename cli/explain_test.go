// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/plugin"
)

// Each plugin's page is printed as text that fits a terminal, with links that work outside of its folder.
func TestExplain(t *testing.T) {
	for _, d := range compiled.Plugins {
		stdout, stderr, code := runCommand(t, "explain", d.Name)
		if code != 0 || stderr != "" || !strings.HasPrefix(stdout, d.Name+"\n\nNAME\n\n    "+d.Name+" - ") {
			t.Errorf("%s: exit code %d, %q, and a page that begins %.40q", d.Name, code, stderr, stdout)
		}
		for line := range strings.Lines(stdout) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "      ") {
				continue // code, which keeps its lines, or a list
			}
			if utf8.RuneCountInString(line) > manualWidth && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s: wider than %d columns: %s", d.Name, manualWidth, line)
			}
			if strings.ContainsAny(line, "`") || strings.Contains(line, "**") || strings.Contains(line, "](") ||
				strings.HasPrefix(line, "#") || strings.HasPrefix(line, "|") {
				t.Errorf("%s: has Markdown: %s", d.Name, line)
			}
		}
	}
	if stdout, _, code := runCommand(t, "explain", "resourcequota"); code != 0 || !strings.HasPrefix(stdout, "ResourceQuota\n") {
		t.Errorf("a name in lower case: exit code %d, and a page that begins %.40q", code, stdout)
	}
	for args, want := range map[string]string{
		"explain frobnicate":       `gatehouse: there is no plugin "frobnicate": gatehouse plugins lists those that there are` + "\n",
		"explain":                  "gatehouse: name one plugin: gatehouse plugins lists those that there are\n",
		"explain Priority Runtime": "gatehouse: name one plugin: gatehouse plugins lists those that there are\n",
		"explain priorities": `gatehouse: there is no plugin "priorities", did you mean "Priority"? gatehouse ` +
			"plugins lists those that there are\n",
	} {
		if _, stderr, code := runCommand(t, strings.Fields(args)...); code != ExitUsage || stderr != want {
			t.Errorf("%s: exit code %d, %q, want %d, %q", args, code, stderr, ExitUsage, want)
		}
	}
}

func TestRenderManual(t *testing.T) {
	got := renderManual("# Some\n\n## Name\n\n*Some* - does `this`, as\n[that](https://k8s.io) does\n\n- one\n- two\n  lines\n\n" +
		"1. first\n\n   ```sh\n   run\n   ```\n\n| a | b |\n| --- | ---: |\n| long name | " + strings.Repeat("word ", 16) + "|\n\n### More\n")
	const want = `Some

NAME

    Some - does this, as that (https://k8s.io) does

    - one
    - two lines

    1. first

         run

    a          b
    ---------  -----------------------------------------------------------------
    long name  word word word word word word word word word word word word word
               word word word

  More
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAbsoluteLinks(t *testing.T) {
	for text, want := range map[string]string{
		"[a](../../docs/webhooks.md#time)": "[a](https://github.com/gatehouse/gatehouse/blob/main/docs/webhooks.md#time)",
		"[a](../other/README.md)":          "[a](https://github.com/gatehouse/gatehouse/blob/main/plugins/other/README.md)",
		"[a](../../test/identity)":         "[a](https://github.com/gatehouse/gatehouse/blob/main/test/identity)",
		"[a](.)":                           "[a](https://github.com/gatehouse/gatehouse/blob/main/plugins/some)",
		"[a](#bugs), [b](https://k8s.io/)": "[a](#bugs), [b](https://k8s.io/)",
	} {
		if got := absoluteLinks(&plugin.Descriptor{Name: "Some", Manual: text}); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
