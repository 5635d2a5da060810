// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package flagfile

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// flags are one of each type.
func flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.Bool("decisions", true, "")
	fs.Int("secure-port", 6443, "")
	fs.Uint("kubelet-port", 10250, "")
	fs.Float32("qps", 0, "")
	fs.String("data-dir", "gatehouse-data", "")
	fs.Duration("event-ttl", time.Hour, "")
	fs.IP("bind-address", net.IPv4(127, 0, 0, 1), "")
	fs.StringSlice("plugins", []string{"Default"}, "")
	fs.StringArray("issuer", []string{"default"}, "")
	fs.Int32Slice("curves", nil, "")
	fs.StringToString("metric-labels", nil, "")
	fs.Var(cliflag.NewMapStringBool(&map[string]bool{}), "switches", "")
	runtime := cliflag.ConfigurationMap{}
	fs.Var(&runtime, "runtime-config", "")
	gates := map[string][]string{}
	fs.Var(cliflag.NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey(&gates), "feature-gates", "")
	fs.String("config", "", "")
	return fs
}

func TestLoad(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want map[string]string // by flag, as the flag says it
	}{
		"nothing":       {"", nil},
		"only comments": {"# nothing\n---\n", nil},
		"null":          {"null\n", nil},
		"scalars": {"decisions: false\nsecure-port: 0\nkubelet-port: 1\nqps: 1.5\ndata-dir: d\nevent-ttl: 2h\n" +
			"bind-address: 0.0.0.0\n",
			map[string]string{"decisions": "false", "secure-port": "0", "kubelet-port": "1", "qps": "1.5",
				"data-dir": "d", "event-ttl": "2h0m0s", "bind-address": "0.0.0.0"}},
		"JSON": {`{"secure-port": 1, "plugins": ["A"]}`, map[string]string{"secure-port": "1",
			"plugins": "[A]"}},
		"an empty one": {`data-dir: ""`, map[string]string{"data-dir": ""}},
		"quoted":       {`data-dir: "123"`, map[string]string{"data-dir": "123"}},
		"lists": {"plugins: [A, B]\nissuer:\n- https://a,b\n- c\ncurves: [23, 24]\n",
			map[string]string{"plugins": "[A,B]", "issuer": `["https://a,b",c]`, "curves": "[23,24]"}},
		"items with commas and quotes": {"plugins: ['a,b', 'c\"d']\n", map[string]string{"plugins": `["a,b","c""d"]`}},
		"empty lists": {"plugins: []\nissuer: []\ncurves: []\n", map[string]string{"plugins": "[]",
			"issuer": "[]"}},
		"maps": {"runtime-config: {api/all: true, v1: false}\nfeature-gates:\n  A: true\n  kube:B: false\n" +
			"metric-labels: {'m,l': 'a,b', x: 'y=z'}\n",
			map[string]string{"runtime-config": "api/all=true,v1=false", "feature-gates": ":A=true,kube:B=false"}},
		"lists as on the command line": {"plugins: A,B\nissuer: https://a,b\ncurves: 23,24\n",
			map[string]string{"plugins": "[A,B]", "issuer": `["https://a,b"]`, "curves": "[23,24]"}},
		"a list of one":         {"curves: 23", map[string]string{"curves": "[23]"}},
		"an empty list in text": {`plugins: ""`, map[string]string{"plugins": "[]"}},
		"maps as on the command line": {"runtime-config: api/all=true,v1=false\nfeature-gates: A=true,kube:B=false\n" +
			"metric-labels: 'x=y=z,\"m,l=a,b\"'\n",
			map[string]string{"runtime-config": "api/all=true,v1=false", "feature-gates": ":A=true,kube:B=false"}},
		"a key without a value": {"runtime-config: api/all", map[string]string{"runtime-config": "api/all="}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "gatehouse.yaml")
			if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			fs := flags()
			if err := Load(fs, file, "config"); err != nil {
				t.Fatal(err)
			}
			for flag, want := range test.want {
				if got := fs.Lookup(flag); got.Value.String() != want || !got.Changed {
					t.Errorf("--%s is %q (%t), want %q", flag, got.Value, got.Changed, want)
				}
			}
			fs.VisitAll(func(f *pflag.Flag) {
				if f.Name != "config" && strings.Contains(test.file, f.Name) != f.Changed {
					t.Errorf("--%s: changed: %t", f.Name, f.Changed)
				}
			})
			if strings.Contains(test.file, "metric-labels") {
				labels, err := fs.GetStringToString("metric-labels")
				if err != nil || fmt.Sprint(labels) != "map[m,l:a,b x:y=z]" {
					t.Errorf("--metric-labels is %q, %v", labels, err)
				}
			}
		})
	}
}

// What the command line has is not the file's to say.
func TestCommandLineWins(t *testing.T) {
	fs := flags()
	if err := fs.Parse([]string{"--secure_port=1", "--plugins=C"}); err != nil {
		t.Fatal(err)
	}
	if err := set(fs, "f", []byte("secure-port: 2\nplugins: [A, B]\ndata-dir: d"), nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"secure-port": "1", "plugins": "[C]", "data-dir": "d"} {
		if got := fs.Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", name, got, want)
		}
	}
}

func TestWrong(t *testing.T) {
	for file, want := range map[string]string{
		"# first\nsecure-prot: 1": `f:2: secure-prot: there is no such flag, did you mean "secure-port"?`,
		"secure_port: 1":          `f:1: secure_port: there is no such flag, did you mean "secure-port"?`,
		"frobnicate: 1":           `f:1: frobnicate: there is no such flag`,
		"config: x":               `f:1: config: is for the command line alone`,
		"secure-port: one":        `f:1: secure-port: is a string, must be an integer`,
		"secure-port: 1.5":        `f:1: secure-port: is a number, must be an integer`,
		"secure-port: [1]":        `f:1: secure-port: is a list, must be an integer`,
		"secure-port:":            `f:1: secure-port: is nothing, must be an integer`,
		"decisions: 1":            `f:1: decisions: is an integer, must be a boolean`,
		"data-dir: 1.30":          `f:1: data-dir: is a number, must be a string: quote it, "1.30"`,
		"data-dir: {a: b}":        `f:1: data-dir: is a map, must be a string`,
		"data-dir:":               `f:1: data-dir: is nothing, must be a string`,
		"event-ttl: 1 hour": `f:1: event-ttl: "1 hour": time: unknown unit " hour" in duration ` +
			`"1 hour"`,
		"plugins: true":   `f:1: plugins: is a boolean, must be a list, or a string as on the command line`,
		"plugins: {A: B}": `f:1: plugins: is a map, must be a list`,
		"curves: 1,a":     `f:1: curves: "1,a": strconv.ParseInt: parsing "a": invalid syntax`,
		"plugins: [A, 1]": `f:1: plugins: [1]: is an integer, must be a string: quote it, "1"`,
		"plugins: [[A]]":  `f:1: plugins: [0]: is a list, must be a string`,
		"curves: [a]":     `f:1: curves: [0]: is a string, must be an integer`,
		"runtime-config:": `f:1: runtime-config: is nothing, must be a map, or a string as on the command ` +
			`line`,
		"runtime-config: [api/all]":   `f:1: runtime-config: is a list, must be a map`,
		"feature-gates: {A: }":        `f:1: feature-gates: A: is nothing, must be a number`,
		"feature-gates: {A: 1, A: 2}": `f:1: feature-gates: line 1: "A" is no name, or is there already`,
		"runtime-config: {a: 'b,c=d'}": `f:1: runtime-config: "a": "b,c=d" has a comma, or = in its name: ` +
			`write all as one string, as on the command line`,
		"data-dir: a\nplugins: []\ndata-dir: b": `f:3: data-dir: is there already, on line 1`,
		"a: &x 1\nsecure-port: *x": "f:1: a: there is no such flag\nf:2: secure-port: is an alias, " +
			"must be an integer",
		"[a]":             `f:1: is a list, must be a map of flags`,
		"hello":           `f:1: is a string, must be a map of flags`,
		"a: b\n---\nc: d": `f: more than one YAML document: must be one`,
		"a: b: c":         `f: yaml: mapping values are not allowed in this context`,
		"? {a: b}\n: c":   `f:1: : is a map, must be the name of a flag`,
	} {
		if err := set(flags(), "f", []byte(file), []string{"config"}); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", file, err, want)
		}
	}
	// What is wrong in the file is, where the command line has the last word, too.
	fs := flags()
	if err := fs.Parse([]string{"--secure-port=1"}); err != nil {
		t.Fatal(err)
	}
	if err := set(fs, "f", []byte("secure-port: one"), nil); err == nil {
		t.Error("a wrong value is nobody's error")
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{large, filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if err := Load(flags(), name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSet(f *testing.F) {
	for _, seed := range []string{"", "---", "null", "[]", "a: b: c", "\x00", "%YAML 1.1\n---\n", "a: &a [*a]",
		"secure-port: 1\nplugins: [A]\n", "runtime-config: {api/all: true}", "? {}", "<<: {secure-port: 1}",
		"metric-labels: {a: 'b\"=c'}", "!!binary aGk=: x", "issuer: [!!set {}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := set(flags(), "f", data, []string{"config"}); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("an error that doesn't name the file: %v", err)
		}
	})
}
