// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconfig

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

type example struct {
	Name    string            `json:"name"`
	Count   *int64            `json:"count"`
	Ratio   float64           `json:"ratio"`
	Enabled bool              `json:"enabled"`
	List    []string          `json:"list"`
	Nested  struct{ X int }   `json:"nested"`
	Mapping map[string]string `json:"mapping"`
}

const head = "apiVersion: example.com/v1\nkind: Example\n"

func TestObject(t *testing.T) {
	seven := int64(7)
	byDefault := example{Name: "default"}
	for name, test := range map[string]struct {
		config io.Reader
		given  bool
		want   example
	}{
		"none":          {nil, false, byDefault},
		"empty":         {strings.NewReader(""), false, byDefault},
		"blank":         {strings.NewReader(" \n"), false, byDefault},
		"nothing in it": {strings.NewReader(head), true, byDefault},
		"null":          {strings.NewReader(head + "count: null"), true, byDefault},
		"YAML": {strings.NewReader("# ours\n" + head + "count: 7\nlist: [a, b]"), true,
			example{Name: "default", Count: &seven, List: []string{"a", "b"}}},
		"JSON": {strings.NewReader(`{"kind": "Example", "apiVersion": "example.com/v1", "name": "n", ` +
			`"enabled": true}`), true, example{Name: "n", Enabled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := byDefault
			given, err := Object("Plugin", test.config, "example.com/v1", "Example", &got)
			if err != nil || given != test.given || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, %t, %v\nwant %v, %t", got, given, err, test.want, test.given)
			}
		})
	}
}

func TestWhatIsNoSuchObject(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"no kind": {"name: n",
			`is kind "" in apiVersion "", must be kind Example in apiVersion example.com/v1`},
		"another kind": {"apiVersion: example.com/v1\nkind: Other\nx: y",
			`is kind "Other" in apiVersion "example.com/v1", must be kind Example in apiVersion example.com/v1`},
		"another version": {"apiVersion: v1\nkind: Example",
			`is kind "Example" in apiVersion "v1", must be kind Example in apiVersion example.com/v1`},
		"unknown field": {head + "other: 1", `unknown field "other"`},
		"wrong case":    {head + "Name: n", `unknown field "Name", did you mean "name"?`},
		"repeated field": {head + "name: a\nname: b",
			"yaml: unmarshal errors:\n  line 4: key \"name\" already set in map"},
		"in JSON": {`{"kind": "Example", "kind": "Example"}`,
			"yaml: unmarshal errors:\n  line 1: key \"kind\" already set in map"},
		"two documents": {head + "---\n" + head, "more than one YAML document: must be one"},
		"not YAML":      {"{", "yaml: line 1: did not find expected node content"},
		"not an object": {"hello", "is of type string, must be an object"},
		"not a kind":    {"kind: [1]", "kind: is of type array, must be a string"},
		"no string":     {head + "name: 1", "name: is of type number, must be a string"},
		"no integer":    {head + "count: 1.5", "count: is of type number 1.5, must be a whole number"},
		"too large": {head + "count: 9223372036854775808",
			"count: is of type number 9223372036854775808, must be a whole number"},
		"no number":  {head + "ratio: high", "ratio: is of type string, must be a number"},
		"no boolean": {head + `enabled: "true"`, "enabled: is of type string, must be true or false"},
		"no list":    {head + "list: a", "list: is of type string, must be a list"},
		"no struct":  {head + "nested: a", "nested: is of type string, must be an object"},
		"no map":     {head + "mapping: [a]", "mapping: is of type array, must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			given, err := Object("Plugin", strings.NewReader(test.config), "example.com/v1", "Example", &example{})
			if want := "the configuration of Plugin: " + test.want; given || err == nil || err.Error() != want {
				t.Errorf("got  %v, %t\nwant %s", err, given, want)
			}
		})
	}
	_, err := Object("Plugin", iotest.ErrReader(errors.New("disk gone")), "example.com/v1", "Example", &example{})
	if err == nil || err.Error() != "reading the configuration of Plugin: disk gone" {
		t.Errorf("got %v", err)
	}
}

// Any of the versions will do, and the first is what a message says to write.
func TestVersions(t *testing.T) {
	versions := []string{"example.com/v1", "example.com/v1beta1"}
	for _, version := range versions {
		var got example
		given, err := Versions("Plugin", strings.NewReader("apiVersion: "+version+"\nkind: Example\nname: some"),
			versions,
			"Example", &got)
		if err != nil || !given || got.Name != "some" {
			t.Errorf("%s: got %v, %t, %v", version, got, given, err)
		}
	}
	_, err := Versions("Plugin", strings.NewReader("apiVersion: example.com/v2\nkind: Example"), versions, "Example",
		&example{})
	want := `the configuration of Plugin: is kind "Example" in apiVersion "example.com/v2", must be kind Example in ` +
		`apiVersion example.com/v1`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestFields(t *testing.T) {
	for name, test := range map[string]struct {
		config    io.Reader
		given     bool
		want, err string
	}{
		"none":  {nil, false, "default", ""},
		"blank": {strings.NewReader("\n"), false, "default", ""},
		"YAML":  {strings.NewReader("name: some"), true, "some", ""},
		"JSON":  {strings.NewReader(`{"name": "n"}`), true, "n", ""},
		"unknown field": {strings.NewReader("kind: Example"), false, "default",
			`the configuration of Plugin: unknown field "kind"`},
		"another type": {strings.NewReader("name: [n]"), false, "default",
			"the configuration of Plugin: name: is of type array, must be a string"},
		"not an object": {strings.NewReader("- name"), false, "default",
			"the configuration of Plugin: is of type array, must be an object"},
		"two documents": {strings.NewReader("name: a\n---\nname: b"), false, "default",
			"the configuration of Plugin: more than one YAML document: must be one"},
		"not YAML": {strings.NewReader("{"), false, "default",
			"the configuration of Plugin: yaml: line 1: did not find expected node content"},
		"unreadable": {iotest.ErrReader(errors.New("disk gone")), false, "default",
			"reading the configuration of Plugin: disk gone"},
	} {
		t.Run(name, func(t *testing.T) {
			got := example{Name: "default"}
			given, err := Fields("Plugin", test.config, &got)
			if given != test.given || got.Name != test.want || (err == nil) != (test.err == "") || err != nil &&
				err.Error() != test.err {
				t.Errorf("got %q, %t, %v\nwant %q, %t, %s", got.Name, given, err, test.want, test.given, test.err)
			}
		})
	}
}
