// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"strings"
	"testing"

	"gatehouse.dev/internal/review/input"
)

// Nothing in an object makes reading it take minutes, or an error of megabytes.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads documents of many megabytes")
	}
	long, digits := strings.Repeat("x", 3<<20), strings.Repeat("1", 3_000_000)
	pod := func(cpu string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: {requests: {cpu: " + cpu + "}}}]}}"
	}
	for name, test := range map[string]struct{ text, want string }{
		"a name":        {"{apiVersion: v1, kind: ConfigMap, metadata: {name: " + long + "}}", "metadata.name has 3145728 bytes, and at most 1024 are read"},
		"a namespace":   {"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: " + long + "}}", "metadata.namespace has 3145728 bytes"},
		"a kind":        {"{apiVersion: v1, kind: " + long + ", metadata: {name: c}}", "kind has 3145728 bytes"},
		"a key":         {`{"apiVersion": "v1", "kind": "ConfigMap", "data": {"` + long + `": "b"}}`, "a key has 3145728 bytes"},
		"a key twice":   {`{"apiVersion": "v1", "kind": "ConfigMap", "data": {"` + long + `": "b", "` + long + `": "c"}}`, "did not find expected ',' or '}'"},
		"a text":        {`"` + long + `"`, "no object: it is a text"},
		"an item":       {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: " + long + "}}]}", "items[0]: metadata.name has"},
		"a quantity":    {pod(`"` + digits + `"`), "a quantity has more than 1024 digits"},
		"a number":      {pod(digits), "a quantity has more than 1024 digits"},
		"an exponent":   {pod("1e99999999"), "a quantity has more than 1024 digits"},
		"digits":        {`{"apiVersion": "v1", "kind": "ConfigMap", "data": {"modulus": "` + digits + `"}}`, ""},
		"custom digits": {`{"apiVersion": "example.com/v1", "kind": "Prime", "spec": {"value": "` + digits + `"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			documents, errs := input.Read([]string{"-"}, strings.NewReader(test.text+
				"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: beside}}"))
			if n := len(documents); n == 0 || documents[n-1].Object.GetName() != "beside" {
				t.Errorf("the next document isn't read: %d objects", n)
			}
			switch {
			case test.want == "" && (len(errs) > 0 || len(documents) != 2):
				t.Errorf("%d objects, errors of %d bytes", len(documents), len(errs))
			case test.want == "":
			case len(errs) != 1 || !strings.Contains(errs[0].Error(), test.want):
				t.Errorf("%d objects and %d errors, want %q in the error", len(documents), len(errs), test.want)
			case len(errs[0].Error()) > 1500:
				t.Errorf("the error has %d bytes", len(errs[0].Error()))
			}
		})
	}
}
