// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"gatehouse.dev/cmd/gatehouse/compiled"
)

var update = flag.Bool("update", false, "write the table of docs/plugins.md")

// removed has the plugins that Kubernetes no longer has and that run nevertheless, and until when it had
// them.
// Source: the plugins' manual pages.
var removed = map[string]string{
	"SecurityContextDeny":   "until 1.29",
	"PodPreset":             "until 1.19",
	"InitialResources":      "until 1.8",
	"ResourceDefaults":      "before 1.0",
	"PodSecurityPolicy":     "until 1.24",
	"DenyEscalatingExec":    "until 1.20",
	"DenyExecOnPrivileged":  "until 1.20",
	"PersistentVolumeLabel": "until 1.30",
	"Initializers":          "until 1.13",
}

// TestPluginsPage checks that the table of docs/plugins.md is made from the descriptors.
func TestPluginsPage(t *testing.T) {
	const page, begin, end = root + "/docs/plugins.md", "<!-- table -->\n", "<!-- end of the table -->\n"
	text := readPage(t, page)
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("docs/plugins.md has no %q and %q", begin, end)
	}
	want := before + begin + pluginTable(t) + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Error("docs/plugins.md isn't what the descriptors say: run go test ./test/docs -run=TestPluginsPage -update")
	}
}

// pluginTable returns the table of all compiled-in plugins, in the order in which they run.
func pluginTable(t *testing.T) string {
	t.Helper()
	var table strings.Builder
	table.WriteString("\n| plugin | phases | default | what it does | in Kubernetes |\n")
	table.WriteString("| --- | --- | --- | --- | --- |\n")
	offUpstream := options.DefaultOffAdmissionPlugins()
	for _, d := range compiled.Plugins {
		state := "off by default"
		until, gone := removed[d.Name]
		if d.Until != "" {
			until, gone = "until "+d.Until, true
		}
		switch upstream := slices.Contains(options.AllOrderedPlugins, d.Name); {
		case upstream == gone:
			t.Errorf("%s: Kubernetes has it: %t; the list of removed plugins has it: %t", d.Name,
				upstream, gone)
		case gone:
			state = until
		case !offUpstream.Has(d.Name):
			state = "on by default"
		}
		byDefault := "off"
		if d.Default {
			byDefault = "on"
		}
		if d.Until != "" {
			byDefault += " with `--emulated-version=" + d.Until + "`"
		}
		if d.Gate != "" {
			byDefault += ", with the feature gate " + string(d.Gate)
		}
		folder := "plugins"
		if removed[d.Name] != "" {
			folder = "removed"
		}
		fmt.Fprintf(&table, "| [%s](../%s/%s/README.md) | %s | %s | %s | %s |\n", d.Name, folder,
			strings.ToLower(d.Name), strings.ReplaceAll(d.Phases.String(), ",", ", "), byDefault, d.Summary, state)
	}
	return table.String() + "\n"
}
