// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The value "hush" is one that nobody may see, and "said" is known.
func TestHideValues(t *testing.T) {
	const hidden = `"(not shown)"`
	for name, test := range map[string]struct{ object, want string }{
		"nothing": {`{"metadata":{"name":"a"},"data":{"env":"hush"}}`, ""},
		"a variable": {`{"spec":{"containers":[{"env":[{"name":"A","value":"hush"}]}]}}`,
			`{"spec":{"containers":[{"env":[{"name":"A","value":` + hidden + `}]}]}}`},
		"a template's": {`{"spec":{"template":{"spec":{"initContainers":[{"args":["hush","said",""],"command":["hush"]}]}}}}`,
			`{"spec":{"template":{"spec":{"initContainers":[{"args":[` + hidden + `,"said",""],"command":[` + hidden +
				`]}]}}}}`},
		"harmless and known ones, and references": {
			`{"env":[{"name":"PORT","value":"1"},{"name":"A","value":"said"},{"name":"B","valueFrom":{"x":"y"}}]}`, ""},
		"a command that is a text, and arguments by name": {`{"command":"hush","args":{"a":["hush"],"b":"said"}}`,
			`{"command":` + hidden + `,"args":{"a":[` + hidden + `],"b":"said"}}`},
		"a template's annotation": {`{"template":{"metadata":{"annotations":{"kapp.k14s.io/original":"hush"}}}}`,
			`{"template":{"metadata":{"annotations":{}}}}`},
		"a schema": {`{"properties":{"args":{"type":"array"},"env":{"items":{"value":"x"}}}}`, ""},
		"a header": {`{"httpGet":{"httpHeaders":[{"name":"A","value":"hush"}]}}`,
			`{"httpGet":{"httpHeaders":[{"name":"A","value":` + hidden + `}]}}`},
		"a whole object": {`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":` +
			`"{\"spec\":{\"args\":[\"hush\"]}}\n","a":"b"}}}`,
			`{"metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":` +
				`"{\"spec\":{\"args\":[\"(not shown)\"]}}\n"}}}`},
		"a whole object without any": {`{"metadata":{"annotations":{"kapp.k14s.io/original":"{\"a\":\"b\"}"}}}`, ""},
		"a text that is no object": {`{"metadata":{"annotations":{"kapp.k14s.io/original":"hush","a":"b"}}}`,
			`{"metadata":{"annotations":{"a":"b"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			if err := json.Unmarshal([]byte(test.object), &object); err != nil {
				t.Fatal(err)
			}
			found := HideValues(object, func(value string) bool { return value == "said" })
			got, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if found != (test.want != "") {
				t.Errorf("found %t", found)
			}
			if !found {
				test.want = test.object
			}
			var want, have any
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(got, &have); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
