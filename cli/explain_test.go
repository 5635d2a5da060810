// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
)

// Each plugin's page is printed as its folder has it, with links that work outside of it.
func TestExplain(t *testing.T) {
	relative := regexp.MustCompile(`\]\((\.[^)]*)\)`)
	for _, d := range plugins.List {
		stdout, stderr, code := runCommand(t, "explain", d.Name)
		if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "# "+d.Name+"\n") {
			t.Errorf("%s: exit code %d, %q, and a page that begins %.40q", d.Name, code, stderr, stdout)
		}
		if link := relative.FindString(stdout); link != "" {
			t.Errorf("%s: the page has the relative link %s", d.Name, link)
		}
	}
	if stdout, _, code := runCommand(t, "explain", "resourcequota"); code != 0 || !strings.HasPrefix(stdout, "# ResourceQuota\n") {
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
