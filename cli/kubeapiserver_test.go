// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"gatehouse.dev/cmd/gatehouse/compiled"
)

// upstreamFlags are kube-apiserver's, but for those that every command has.
func upstreamFlags(t *testing.T) map[string]*pflag.Flag {
	t.Helper()
	all := map[string]*pflag.Flag{}
	for _, flags := range kubeapiserver.NewServerRunOptions().Flags().FlagSets {
		flags.VisitAll(func(f *pflag.Flag) { all[f.Name] = f })
	}
	var global pflag.FlagSet
	logs.AddFlags(&global, logs.SkipLoggingConfigurationFlags())
	global.VisitAll(func(f *pflag.Flag) { all[f.Name] = f })
	if len(all) < 150 {
		t.Fatalf("kube-apiserver has only %d flags", len(all))
	}
	return all
}

// TestKubeAPIServerFlags: under the name kube-apiserver there are kube-apiserver's flags, all of
// them and no others, with the same short names, types and defaults. Source: upstream's
// cmd/kube-apiserver/app/options.
func TestKubeAPIServerFlags(t *testing.T) {
	theirs, ours := upstreamFlags(t), map[string]*pflag.Flag{}
	newKubeAPIServer(compiled.Plugins).Flags().VisitAll(func(f *pflag.Flag) { ours[f.Name] = f })
	for name, flag := range theirs {
		own := ours[name]
		if own == nil {
			t.Errorf("there is no --%s", name)
			continue
		}
		for what, pair := range map[string][2]string{
			"default":         {own.DefValue, flag.DefValue},
			"type":            {own.Value.Type(), flag.Value.Type()},
			"short name":      {own.Shorthand, flag.Shorthand},
			"without a value": {own.NoOptDefVal, flag.NoOptDefVal},
		} {
			if pair[0] != pair[1] {
				t.Errorf("--%s: %s %q, kube-apiserver's is %q", name, what, pair[0], pair[1])
			}
		}
		if (own.Deprecated == "") != (flag.Deprecated == "") || own.Hidden != flag.Hidden {
			t.Errorf("--%s: deprecated %q, hidden %t; kube-apiserver's: %q, %t", name, own.Deprecated, own.Hidden,
				flag.Deprecated, flag.Hidden)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if theirs[name] == nil && name != "help" && name != "version" {
			t.Errorf("there is --%s, which kube-apiserver doesn't have", name)
		}
	}
	if v := ours["version"]; v == nil || v.NoOptDefVal != "true" {
		t.Error("there is no --version")
	}
}

// documented has the flags that a section of docs/differences.md names, by how it begins.
func documented(t *testing.T, beginning string) map[string]bool {
	t.Helper()
	document, err := os.ReadFile("../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(document), "\n"+beginning)
	if !found {
		t.Fatalf("docs/differences.md has no %q", beginning)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	text, _, _ = strings.Cut(text, "\n- ")
	named := map[string]bool{}
	for _, flag := range regexp.MustCompile("`--([a-z0-9-]+)`").FindAllStringSubmatch(text, -1) {
		named[flag[1]] = true
	}
	return named
}

// TestServeFlags: `gatehouse serve` knows every flag of kube-apiserver, with the same default but
// for those that docs/differences.md names. Source: upstream's cmd/kube-apiserver/app/options.
func TestServeFlags(t *testing.T) {
	defaults := documented(t, "## Defaults\n")
	flags := newServe(compiled.Plugins).Flags()
	for name, theirs := range upstreamFlags(t) {
		own := flags.Lookup(name)
		switch {
		case own == nil:
			t.Errorf("there is no --%s", name)
		case own.DefValue != theirs.DefValue && !defaults[name]:
			t.Errorf("--%s is %q by default, in kube-apiserver %q, which docs/differences.md doesn't say", name,
				own.DefValue, theirs.DefValue)
		}
	}
}

// TestFlagsNotSupported: a flag of kube-apiserver for what isn't there ends the start, and says
// why; docs/differences.md names them all.
func TestFlagsNotSupported(t *testing.T) {
	const peers = ": the proxy between API servers of different versions is not supported"
	refused := map[string]string{
		"egress-selector-config-file": ": egress selectors are not supported",
		"peer-ca-file":                peers,
		"peer-advertise-ip":           peers,
		"peer-advertise-port":         peers,
	}
	named := documented(t, "- Flags of kube-apiserver for what isn't there")
	if got, want := slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(refused)); !slices.Equal(got, want) {
		t.Errorf("docs/differences.md names %q, and what ends the start is %q", got, want)
	}
	for flag, why := range refused {
		_, stderr, code := runCommand(t, "serve", "--data-dir="+t.TempDir(), "--secure-port=0", "--"+flag+"=1")
		if code != ExitUsage || !strings.Contains(stderr, "--"+flag+why) {
			t.Errorf("--%s: exit code %d, and it says %s; want %q", flag, code, stderr, why)
		}
	}
}
