// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	for name, test := range map[string]struct {
		object, patch, want, err string
	}{
		"add, replace, remove": {`{"a":1,"b":2}`,
			`[{"op":"add","path":"/c","value":3},{"op":"replace","path":"/a","value":null},{"op":"remove",` +
				`"path":"/b"}]`, `{"a":null,"c":3}`, ""},
		"append":     {`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2}]`, `{"a":[1,2]}`, ""},
		"escapes":    {`{"a/b":{"c~d":1}}`, `[{"op":"remove","path":"/a~1b/c~0d"}]`, `{"a/b":{}}`, ""},
		"test holds": {`{"a":1}`, `[{"op":"test","path":"/a","value":1}]`, `{"a":1}`, ""},
		"test fails": {`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, "", "testing value /a failed"},
		"missing path": {`{"a":1}`, `[{"op":"add","path":"/b/c","value":2}]`, "",
			`doc is missing path: "/b/c"`},
		"missing value": {`{"a":1}`, `[{"op":"remove","path":"/b"}]`, "",
			"Unable to remove nonexistent key: b"},
		"index": {`{"a":[]}`, `[{"op":"add","path":"/a/7","value":2}]`, "",
			"Unable to access invalid index: 7"},
		"unknown operation": {`{"a":1}`, `[{"op":"frob","path":"/a"}]`, "", "Unexpected kind: frob"},
		"no operation":      {`{"a":1}`, `[null]`, "", "Unexpected kind: unknown"},
		"the whole, by nothing": {`{"a":1}`, `[{"op":"replace","path":""}]`, "",
			"an operation can't be applied, check its path and value: "},
		"copies, doubling": {`{"a":["0123456789"]}`, bomb(64), "", "the accumulated size increase of copy is"},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := DecodePatch([]byte(test.patch))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Apply(patch, []byte(test.object))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("the error is %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || string(got) != test.want {
				t.Errorf("the object becomes %s (%v), want %s", got, err, test.want)
			}
		})
	}
}

// bomb is a patch that copies a list into itself, so that each operation doubles it.
func bomb(operations int) string {
	const double = `{"op":"copy","from":"/a","path":"/a/-"}`
	return "[" + strings.TrimSuffix(strings.Repeat(double+",", operations), ",") + "]"
}

func TestDecodePatch(t *testing.T) {
	for data, want := range map[string]string{
		`null`: "",
		`[]`:   "",
		`{"op":"add"}`: "received undecodable patch in webhook response: json: cannot unmarshal object into Go " +
			"value of type",
		`[{"op":"add"}`: "received undecodable patch in webhook response: unexpected end of JSON input",
		`not JSON`:      "received undecodable patch in webhook response: invalid character",
		bomb(10000):     "",
		bomb(10001): "received undecodable patch in webhook response: the allowed maximum operations in a JSON " +
			"patch is 10000, got 10001",
		`[1]`: "received undecodable patch in webhook response: json: cannot unmarshal number into Go " +
			"value of type",
		`[{"op":[],"":}`: "received undecodable patch in webhook response: invalid character",
	} {
		_, err := DecodePatch([]byte(data))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("of %.40s the error is %v, want %s", data, err, want)
		}
	}
}

// Whatever the patch, it makes JSON of the object or is an error.
func FuzzPatch(f *testing.F) {
	object := `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"},` +
		`null]}}`
	for _, op := range []string{"add", "remove", "replace", "move", "copy", "test", ""} {
		for _, path := range []string{"", "/", "/spec", "/spec/containers/0", "/spec/containers/-",
			"/spec/containers/-1", "/spec/containers/1/x", "/spec/containers/9", "/metadata/labels/a", "/a~1b"} {
			f.Add(object,
				fmt.Sprintf(`[{"op":%q,"path":%q,"from":"/spec","value":{"x":[null,1]}},{"op":%[1]q,"path":%[2]q}]`, op,
					path))
		}
	}
	f.Add(`null`, `[{"op":"add","path":"/a","value":1}]`)
	f.Add(`[]`, `[{"op":"add","path":"/-","value":1}]`)
	f.Add(object, `[{"op":"replace","path":"","value":null},{"op":"add","path":"/a","value":1}]`)
	f.Add(object, `[{"op":"move","from":"/spec","path":"/spec/containers/0"}]`)
	f.Add(object, bomb(20))
	f.Fuzz(func(t *testing.T, object, data string) {
		if !json.Valid([]byte(object)) {
			return
		}
		patch, err := DecodePatch([]byte(data))
		if err != nil {
			return
		}
		if patched, err := Apply(patch, []byte(object)); err == nil && !json.Valid(patched) {
			t.Errorf("%s patched by %s is %s", object, data, patched)
		}
	})
}
