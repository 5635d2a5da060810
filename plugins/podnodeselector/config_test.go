// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podnodeselector

import (
	"fmt"
	"strings"
	"testing"

	"gatehouse.dev/plugin"
)

func TestConfiguration(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"none":          {"", ` map[]`},
		"blank":         {"\n", ` map[]`},
		"nothing in it": {"podNodeSelectorPluginConfig:\n", ` map[]`},
		"as seed 002 does": {"podNodeSelectorPluginConfig:\n clusterDefaultNodeSelector: env=test, zone = b\n " +
			"namespace1: a=1\n namespace2: a=2\n", `env=test,zone=b map[namespace1:a=1 namespace2:a=2]`},
		"JSON": {`{"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "a=1", "ns": ""}}`,
			`a=1 map[ns:]`},
		"no selector": {"podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector:\n  ns: null\n", ` map[ns:]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(strings.NewReader(test.config))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(got.clusterDefault,
				got.whitelists); strings.TrimSpace(got) != strings.TrimSpace(test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// Upstream takes what it can read of a configuration; here whatever is wrong with it ends the
// start.
func TestWrongConfiguration(t *testing.T) {
	const head = "podNodeSelectorPluginConfig:\n  "
	for name, test := range map[string]struct{ config, want string }{
		"not YAML":      {"{", "yaml: line 1: did not find expected node content"},
		"another field": {"podNodeSelector: {}", `unknown field "podNodeSelector"`},
		"with a kind":   {"kind: Configuration", `unknown field "kind"`},
		"a list": {"podNodeSelectorPluginConfig: []",
			"podNodeSelectorPluginConfig: is of type array, must be an object"},
		"no text": {head + "ns: [a]",
			`podNodeSelectorPluginConfig[ns]: Invalid value: ["a"]: must be a string`},
		"two documents": {head + "ns: a=1\n---\n" + head + "other: b=1",
			"more than one YAML document: must be one"},
		"twice": {head + "ns: a=1\n  ns: a=2",
			"yaml: unmarshal errors:\n  line 3: key \"ns\" already set in map"},
		"a default that is a": {head + "clusterDefaultNodeSelector: a",
			`podNodeSelectorPluginConfig[clusterDefaultNodeSelector]: Invalid value: "a": invalid selector: [a]`},
		"misspelt default": {head + "clusterDefaultNodeselector: a=b",
			`podNodeSelectorPluginConfig[clusterDefaultNodeselector]: Invalid value: "clusterDefaultNodeselector": ` +
				`must be clusterDefaultNodeSelector or the name of a namespace: a lowercase RFC 1123 label must ` +
				`consist ` +
				`of lower case alphanumeric characters or '-', ` +
				`and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used ` +
				`for ` +
				`validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		"two": {head + "a: x\n  b: on",
			`[podNodeSelectorPluginConfig[a]: Invalid value: "x": invalid selector: [x], ` +
				`podNodeSelectorPluginConfig[b]: Invalid value: true: must be a string]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(test.config), &plugin.Env{})
			if want := "the configuration of PodNodeSelector: " + test.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func FuzzConfiguration(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", "null", "podNodeSelectorPluginConfig: null",
		"podNodeSelectorPluginConfig:\n clusterDefaultNodeSelector: a=b\n ns: c=d\n",
		`{"podNodeSelectorPluginConfig": {"": ""}}`, `{"podNodeSelectorPluginConfig": {"ns": "a"}}`,
		"podNodeSelectorPluginConfig: &a {ns: *a}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, config string) {
		loaded, err := load(strings.NewReader(config))
		if (loaded == nil) == (err == nil) {
			t.Errorf("got %v, %v", loaded, err)
		}
	})
}
