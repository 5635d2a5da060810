// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDocument(t *testing.T) {
	for name, test := range map[string]struct{ content, want, err string }{
		"nothing":             {"", "null", ""},
		"comments":            {"# ours\n---\n# no more\n", "null", ""},
		"YAML":                {"b: [1, x]\na: 2\n", `{"a":2,"b":[1,"x"]}`, ""},
		"JSON":                {`{"b": 1}`, `{"b":1}`, ""},
		"one, and empty ones": {"# ours\n---\na: 2\n---\n# no more\n---\n", `{"a":2}`, ""},
		"two":                 {"a: 1\n---\nb: 2\n", "", "more than one YAML document: must be one"},
		"the same twice":      {"a: 1\n---\na: 1\n", "", "more than one YAML document: must be one"},
		"a broken second one": {"a: 1\n---\n{\n", "", "yaml: line 1: did not find expected node content"},
		"a repeated field":    {"a: 1\na: 1\n", "", "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Document(strings.NewReader(test.content))
			if string(got) != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("got  %s, %v\nwant %s, %s", got, err, test.want, test.err)
			}
		})
	}
	gone := errors.New("disk gone")
	if _, err := Document(iotest.ErrReader(gone)); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestDecoding(t *testing.T) {
	type example struct {
		APIVersion string                  `json:"apiVersion"`
		Kind       string                  `json:"kind"`
		List       []struct{ Name string } `json:"list"`
	}
	for name, test := range map[string]struct{ document, lenient, strict string }{
		"as it must be":  {`{"kind":"K","apiVersion":"v1","list":[{"Name":"n"}]}`, "", ""},
		"null":           {`null`, "", ""},
		"unknown fields": {`{"Kind":"K","x":1}`, "", `[unknown field "Kind", did you mean "kind"?, unknown field "x"]`},
		"twice":          {`{"kind":"K","kind":"L"}`, "", `duplicate field "kind"`},
		"another type": {`{"kind":1}`, "kind: is of type number, must be a string",
			"kind: is of type number, must be a string"},
		"no list": {`{"list":{}}`, "list: is of type object, must be a list",
			"list: is of type object, must be a list"},
		"no object": {`[1]`, "is of type array, must be an object", "is of type array, must be an object"},
		"no JSON":   {`{`, "unexpected end of JSON input", "unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, way := range []struct {
				decode func([]byte, any) error
				want   string
			}{{Lenient, test.lenient}, {Strict, test.strict}} {
				got := ""
				if err := way.decode([]byte(test.document), &example{}); err != nil {
					got = err.Error()
				}
				if got != way.want {
					t.Errorf("got  %s\nwant %s", got, way.want)
				}
			}
		})
	}
}
