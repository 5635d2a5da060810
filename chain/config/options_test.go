// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"gatehouse.dev/plugin"
)

// optionList is A, on; B; C, on and deprecated; D.
func optionList() []plugin.Descriptor {
	build := func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return nil, nil }
	list := []plugin.Descriptor{
		{Name: "A", Phases: plugin.Mutating, New: build},
		{Name: "B", Phases: plugin.Mutating | plugin.Validating, New: build},
		{Name: "C", Phases: plugin.Validating, New: build}, {Name: "D", Phases: plugin.Validating, New: build},
	}
	list[0].Default, list[2].Default = true, true
	list[2].Deprecated = "use D"
	list[0].Summary, list[1].Summary, list[2].Summary = "Does a.", "Does b.", "Does c."
	return list
}

func TestSelect(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"defaults":             {nil, []string{"A", "C"}, ""},
		"enable":               {[]string{"--enable-admission-plugins=D,B"}, []string{"A", "B", "C", "D"}, ""},
		"enable a default one": {[]string{"--enable-admission-plugins=A,A"}, []string{"A", "C"}, ""},
		"enable, twice": {[]string{"--enable-admission-plugins=D", "--enable-admission-plugins=B"},
			[]string{"A", "B", "C", "D"}, ""},
		"disable":                 {[]string{"--disable-admission-plugins=A"}, []string{"C"}, ""},
		"disable one that is off": {[]string{"--disable-admission-plugins=B"}, []string{"A", "C"}, ""},
		"disable all":             {[]string{"--disable-admission-plugins=A,C"}, nil, ""},
		"enable and disable": {[]string{"--disable-admission-plugins=A", "--enable-admission-plugins=B"},
			[]string{"B", "C"}, ""},
		"exact order":  {[]string{"--admission-control=D,A,B"}, []string{"D", "A", "B"}, ""},
		"exactly none": {[]string{"--admission-control="}, nil, ""},
		"unknown": {[]string{"--enable-admission-plugins=X", "--disable-admission-plugins=Y"}, nil,
			`[enable-admission-plugins plugin "X" is unknown, disable-admission-plugins plugin "Y" is unknown]`},
		"unknown, exact": {[]string{"--admission-control=A,X"}, nil,
			`admission-control plugin "X" is unknown`},
		"written otherwise": {[]string{"--enable-admission-plugins=b"}, nil,
			`enable-admission-plugins plugin "b" is unknown, did you mean "B"?`},
		"an empty name": {[]string{"--enable-admission-plugins=B,"}, nil,
			`enable-admission-plugins plugin "" is unknown`},
		"contradiction": {[]string{"--enable-admission-plugins=C,B,A", "--disable-admission-plugins=A,B"},
			nil, `[A B] in enable-admission-plugins and disable-admission-plugins overlapped: remove from one of them`},
		"repeated": {[]string{"--admission-control=D,A,D,A,A"}, nil,
			`[A D] in admission-control repeated: a plugin runs once in each phase`},
		"exact and enable": {[]string{"--admission-control=A", "--enable-admission-plugins=B"}, nil,
			`admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive: ` +
				`use the latter`},
		"exactly none, and disable": {[]string{"--admission-control=", "--disable-admission-plugins=A"}, nil,
			`admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive: ` +
				`use the latter`},
		"all that is wrong": {[]string{"--admission-control=A,A", "--enable-admission-plugins=B,d",
			"--disable-admission-plugins=B"}, nil,
			`[admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually ` +
				`exclusive: use the latter, ` +
				`enable-admission-plugins plugin "d" is unknown, did you mean "D"?, ` +
				`[B] in enable-admission-plugins and disable-admission-plugins overlapped: remove from one of them, ` +
				`[A] in admission-control repeated: a plugin runs once in each phase]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o Options
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			fs.SetOutput(&strings.Builder{})
			o.AddFlags(fs, optionList())
			if err := fs.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			selected, err := o.Select(optionList())
			wantError(t, err, test.err)
			if got := plugin.Names(selected); !reflect.DeepEqual(got, test.want) {
				t.Errorf("selected %q, want %q", got, test.want)
			}
		})
	}
}

// A plugin that Kubernetes no longer has runs only in a server that emulates a version which has it.
func TestEnded(t *testing.T) {
	list := optionList()
	list[0].Until, list[1].Until, list[2].Until = "1.30", "1.30", "1.99"
	for name, test := range map[string]struct {
		options  Options
		want     []string
		warnings []string
	}{
		"defaults": {Options{}, []string{"C"}, nil},
		"named": {Options{Enable: []string{"D", "B"}, Disable: []string{"A"}}, []string{"C", "D"}, []string{
			"admission plugin B ended with Kubernetes 1.30, and doesn't run: remove it from --enable-admission-plugins",
			"admission plugin A ended with Kubernetes 1.30, and doesn't run: remove it from --disable-admission-plugins"}},
		"exactly": {Options{Exact: []string{"D", "B", "C"}}, []string{"D", "C"}, []string{
			"admission plugin B ended with Kubernetes 1.30, and doesn't run: remove it from --admission-control"}},
		"only": {Options{Only: []string{"A", "D"}}, []string{"D"}, []string{
			"admission plugin A ended with Kubernetes 1.30, and doesn't run: remove it from --plugins"}},
	} {
		t.Run(name, func(t *testing.T) {
			selected, err := test.options.Select(list)
			if got := plugin.Names(selected); err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("selected %q, %v, want %q", got, err, test.want)
			}
			if got := test.options.Warnings(list); !reflect.DeepEqual(got, test.warnings) {
				t.Errorf("warnings\n%q\nwant\n%q", got, test.warnings)
			}
		})
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	new(Options).AddFlags(fs, list)
	if usage := fs.FlagUsages(); !strings.Contains(usage, "On by default: C.") || !strings.Contains(usage, "names of: A, B, C, D.") {
		t.Errorf("the help is\n%s", usage)
	}
	c := &Config{file: "f", plugins: []Section{{name: "A", field: "plugins[0]"}}}
	wantError(t, c.Check(list, list[2:3]), `admission control configuration f: plugin "A": plugins[0]: the plugin ended with `+
		`Kubernetes 1.30: remove the entry`)
}

func TestMalformedList(t *testing.T) {
	nothing := plugin.Descriptor{Name: "N"}
	for name, test := range map[string]struct {
		list []plugin.Descriptor
		err  string
	}{
		"twice":   {append(optionList(), optionList()[0]), `admission plugin list: "A" is there twice`},
		"no name": {[]plugin.Descriptor{{}}, `admission plugin list: entry 0 has no Name`},
		"nothing": {[]plugin.Descriptor{nothing},
			`[admission plugin list: "N" has no New, admission plugin list: "N" has Phases 0, must be Mutating, ` +
				`Validating or both]`},
		"no version": {[]plugin.Descriptor{{Name: "N", Phases: plugin.Mutating, New: optionList()[0].New, Until: "1"}},
			`admission plugin list: "N" has Until "1", must be a minor version such as 1.36`},
		"unknown phase": {[]plugin.Descriptor{{Name: "N", Phases: 5, New: optionList()[0].New}},
			`admission plugin list: "N" has Phases 5, must be Mutating, Validating or both`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&Options{}).Select(test.list)
			wantError(t, err, test.err)
		})
	}
}

func TestFlags(t *testing.T) {
	var o Options
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	output := &strings.Builder{}
	fs.SetOutput(output)
	o.AddFlags(fs, optionList())
	if err := fs.Parse([]string{"--admission-control=A", "--admission-control-config-file=/etc/adm.yaml"}); err != nil {
		t.Fatal(err)
	}
	if o.ConfigFile != "/etc/adm.yaml" {
		t.Errorf("ConfigFile is %q", o.ConfigFile)
	}
	if want := "Flag --admission-control has been deprecated, use --enable-admission-plugins and " +
		"--disable-admission-plugins instead.\n"; output.String() != want {
		t.Errorf("output is %q, want %q", output, want)
	}
	usage := fs.FlagUsages()
	for _, want := range []string{"--enable-admission-plugins", "--disable-admission-plugins", "--admission-control ",
		"--admission-control-config-file", "On by default: A, C.", "names of: A, B, C, D."} {
		if !strings.Contains(usage, want) {
			t.Errorf("the help has no %q:\n%s", want, usage)
		}
	}
	fs = pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs, optionList()[1:2])
	if usage := fs.FlagUsages(); !strings.Contains(usage, "On by default: none.") {
		t.Errorf("the help doesn't say that no plugin is on by default:\n%s", usage)
	}
}
