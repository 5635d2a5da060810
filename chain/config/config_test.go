// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/plugin/pluginconfig"
)

const (
	v1Header    = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
	alphaHeader = "apiVersion: apiserver.k8s.io/v1alpha1\nkind: AdmissionConfiguration\n"
)

// writeFiles writes the admission control configuration file, and others beside it, and returns its
// path.
func writeFiles(t testing.TB, config string, others map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("adm.yaml", config)
	for name, content := range others {
		write(name, content)
	}
	return filepath.Join(dir, "adm.yaml")
}

func TestLoadConfig(t *testing.T) {
	const none = "(none)"
	for name, test := range map[string]struct {
		config string
		want   string // the configuration of plugin A
	}{
		"inline": {v1Header + "plugins:\n- name: A\n  configuration:\n    b: [1, x]\n    a: 2\n",
			`{"a":2,"b":[1,"x"]}`},
		"inline, v1alpha1": {alphaHeader + "plugins:\n- name: A\n  configuration: {a: 2}\n", `{"a":2}`},
		"JSON": {`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", ` +
			`"plugins": [{"name": "A", "configuration": {"b": 9007199254740993, "a": 1.50}}]}`,
			`{"b": 9007199254740993, "a": 1.50}`},
		"JSON with tabs": {"{\n\t\"apiVersion\": \"apiserver.config.k8s.io/v1\",\n\t\"kind\": " +
			"\"AdmissionConfiguration\",\n\t\"plugins\": [{\"name\": \"A\", \"path\": \"\", \"configuration\": {}}]}",
			`{}`},
		"relative path":  {v1Header + "plugins:\n- name: A\n  path: sub/a.yaml\n", "a: 1\n"},
		"an empty file":  {v1Header + "plugins:\n- name: A\n  path: empty.yaml\n", ""},
		"neither":        {v1Header + "plugins:\n- name: A\n", none},
		"null":           {v1Header + "plugins:\n- name: A\n  configuration: null\n  path: null\n", none},
		"another plugin": {v1Header + "plugins:\n- name: B\n  configuration: {a: 2}\n", none},
		"no plugins":     {v1Header, none},
		"separators, comments": {"# ours\n---\n" + v1Header +
			"plugins:\n- {name: A, configuration: {a: 2}}\n---\n# no more\n", `{"a":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(writeFiles(t, test.config,
				map[string]string{"sub/a.yaml": "a: 1\n", "empty.yaml": ""}))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // each reader is a new one
				got := none
				if r := c.For("A"); r != nil {
					data, err := io.ReadAll(r)
					if err != nil {
						t.Fatal(err)
					}
					got = string(data)
				}
				if got != test.want {
					t.Errorf("configuration is %q, want %q", got, test.want)
				}
			}
		})
	}
}

// A path in a plugin's configuration is relative to the file that has it, wherever the server runs.
func TestPathsInConfiguration(t *testing.T) {
	file := writeFiles(t, v1Header+"plugins:\n- {name: A, path: sub/a.yaml}\n- {name: B, configuration: {}}\n",
		map[string]string{"sub/a.yaml": "{}"})
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	t.Chdir(dir)
	here, err := Load(filepath.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		config     io.Reader
		path, want string
	}{
		{c.For("A"), "key.pem", filepath.Join(dir, "sub", "key.pem")},
		{c.For("A"), "../key.pem", filepath.Join(dir, "key.pem")},
		{c.For("B"), "key.pem", filepath.Join(dir, "key.pem")},
		{c.For("B"), "/etc/key.pem", "/etc/key.pem"},
		{c.For("B"), "", ""},
		{strings.NewReader("{}"), "key.pem", "key.pem"},
		{nil, "key.pem", "key.pem"},
		{here.For("B"), "key.pem", filepath.Join(dir, "key.pem")},
	} {
		if got := pluginconfig.Path(test.config, test.path); got != test.want {
			t.Errorf("%q: got %q, want %q", test.path, got, test.want)
		}
	}
}

func TestLoadConfigAbsolutePath(t *testing.T) {
	other := writeFiles(t, "b: 2", nil)
	c, err := Load(writeFiles(t, v1Header+"plugins:\n- name: A\n  path: "+other+"\n", nil))
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := io.ReadAll(c.For("A")); string(data) != "b: 2" {
		t.Errorf("configuration is %q", data)
	}
}

func TestNoConfig(t *testing.T) {
	c, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{c, nil} {
		if r := c.For("A"); r != nil {
			t.Errorf("configuration is %v, want nil", r)
		}
		if err := c.Check(optionList(), nil); err != nil {
			t.Error(err)
		}
	}
}

func TestBrokenConfig(t *testing.T) {
	const must = `must be kind AdmissionConfiguration in apiVersion apiserver.config.k8s.io/v1 or ` +
		`apiserver.k8s.io/v1alpha1`
	for name, test := range map[string]struct{ config, err string }{
		"empty":                {"", "is empty: " + must},
		"only comments":        {"# nothing\n---\n", "is empty: " + must},
		"legacy, without kind": {"imagePolicy:\n  kubeConfigFile: x\n", `apiVersion "", kind "": ` + must},
		"wrong kind": {"apiVersion: apiserver.config.k8s.io/v1\nkind: " +
			"EncryptionConfiguration\nresources: []\n",
			`apiVersion "apiserver.config.k8s.io/v1", kind "EncryptionConfiguration": ` + must},
		"wrong version": {"apiVersion: apiserver.config.k8s.io/v1alpha1\nkind: AdmissionConfiguration\n",
			`apiVersion "apiserver.config.k8s.io/v1alpha1", kind "AdmissionConfiguration": ` + must},
		"kind in other case": {"apiVersion: apiserver.config.k8s.io/v1\nKind: AdmissionConfiguration\n",
			`apiVersion "apiserver.config.k8s.io/v1", kind "": ` + must},
		"no object":     {"hello", "is of type string, must be an object"},
		"a list":        {"[]", "is of type array, must be an object"},
		"not YAML":      {"a: b: c", "yaml: mapping values are not allowed in this context"},
		"two documents": {v1Header + "---\n" + v1Header, "more than one YAML document: must be one"},
		"unknown field": {v1Header + "plugin: []\n", `unknown field "plugin", did you mean "plugins"?`},
		"unknown field of a plugin": {v1Header + "plugins:\n- name: A\n  config: {}\n",
			`plugin "A": plugins[0]: unknown field "config"`},
		"field in other case": {v1Header + "plugins:\n- name: A\n  Path: x\n",
			`plugin "A": plugins[0]: unknown field "Path", did you mean "path"?`},
		"repeated field": {v1Header + "plugins: []\nplugins: []\n",
			"yaml: unmarshal errors:\n  line 4: key \"plugins\" already set in map"},
		"repeated field, JSON": {`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": ` +
			`"AdmissionConfiguration", "plugins": [], "plugins": []}`, `duplicate field "plugins"`},
		"repeated field of a plugin": {`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": ` +
			`"AdmissionConfiguration", "plugins": [{"name": "B"}, {"name": "A", "path": "a", "path": "b"}]}`,
			`plugin "A": plugins[1]: duplicate field "path"`},
		"repeated field, inline": {`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": ` +
			`"AdmissionConfiguration", "plugins": [{"name": "A", "configuration": {"a": {"x": 1, "x": 2}}}]}`,
			`plugin "A": plugins[0]: duplicate field "configuration.a.x"`},
		"wrong type": {v1Header + "plugins: A\n", "plugins: is of type string, must be a list"},
		"wrong type in a plugin": {v1Header + "plugins:\n- name: A\n  path: 7\n",
			`plugin "A": plugins[0]: path: is of type number, must be a string`},
		"plugin that is no object": {v1Header + "plugins:\n- A\n",
			`plugins[0].name: must be the name of an admission plugin`},
		"no name": {v1Header + "plugins:\n- path: x\n",
			`plugins[0].name: must be the name of an admission plugin`},
		"empty name": {v1Header + "plugins:\n- name: \"\"\n",
			`plugins[0].name: must be the name of an admission plugin`},
		"name of another type": {v1Header + "plugins:\n- name: 7\n",
			`plugins[0].name: must be the name of an admission plugin`},
		"plugin twice": {v1Header + "plugins:\n- name: A\n- name: A\n",
			`plugin "A": plugins[1].name: the plugin is configured already by plugins[0]`},
		"path and configuration": {v1Header + "plugins:\n- name: A\n  path: a.yaml\n  configuration: {}\n",
			`plugin "A": plugins[0]: path and configuration are mutually exclusive: remove one of them`},
		"several errors": {v1Header + "plugins:\n- name: A\n  x: 1\n- name: B\n  z: 1\n",
			`[plugin "A": plugins[0]: unknown field "x", plugin "B": plugins[1]: unknown field "z"]`},
		"path to a file not there": {v1Header + "plugins:\n- name: A\n  path: gone.yaml\n",
			`plugin "A": plugins[0].path: open DIR/gone.yaml: no such file or directory`},
		"path to a directory": {v1Header + "plugins:\n- name: A\n  path: .\n",
			`plugin "A": plugins[0].path: read DIR: is a directory`},
		"inline that is not an object": {v1Header + "plugins:\n- name: A\n  configuration: 7\n",
			`plugin "A": plugins[0].configuration: must be an object`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeFiles(t, test.config, nil)
			_, err := Load(path)
			wantError(t, err,
				"admission control configuration "+path+": "+strings.ReplaceAll(test.err, "DIR", filepath.Dir(path)))
		})
	}
	_, err := Load("/nowhere/adm.yaml")
	wantError(t, err, "admission control configuration: open /nowhere/adm.yaml: no such file or directory")
}

func TestCheckConfig(t *testing.T) {
	path := writeFiles(t, v1Header+"plugins:\n- name: A\n- name: B\n- name: X\n- name: c\n", nil)
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	list := optionList()
	wantError(t, c.Check(list, list[:1]), strings.ReplaceAll(
		`[admission control configuration FILE: plugin "B": plugins[1]: the plugin is not enabled: enable it with `+
			`--enable-admission-plugins or remove the entry, `+
			`admission control configuration FILE: plugin "X": plugins[2].name: the plugin is unknown: remove the `+
			`entry, `+
			`admission control configuration FILE: plugin "c": plugins[3].name: the plugin is unknown, did you mean `+
			`"C"?]`, "FILE", path))
}

func FuzzLoadConfig(f *testing.F) {
	for _, seed := range []string{
		"", "---", "null", "[]", "{", "a: b: c", "\x00", "\xff\xfe", "%YAML 1.1\n---\n", "- &a [*a]",
		"a: &a [1]\nb: *a", "? {}", "<<: {}",
		v1Header, alphaHeader, v1Header + "plugins: null", v1Header + "plugins: [null]", v1Header +
			"plugins: [{name: null}]",
		v1Header + "plugins:\n- name: A\n  configuration:\n    b: [1, x]\n", v1Header +
			"plugins:\n- name: A\n  path: a.yaml\n- name: A\n",
		v1Header + "---\n" + v1Header,
		`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [{"name": ` +
			`"A", "name": "B"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Not Load itself, which would read the files that data names.
		c, err := parseConfig("/etc/adm.yaml", data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		for _, p := range c.plugins {
			if p.name == "" || p.path != "" && !filepath.IsAbs(p.path) {
				t.Errorf("accepted %+v", p)
			}
			if r := c.For(p.name); (r == nil) != (p.data == nil) {
				t.Errorf("For(%q) is %v", p.name, r)
			}
		}
		_ = c.Check(nil, nil)
	})
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error is\n\t%s\nwant\n\t%s", got, want)
	}
}
