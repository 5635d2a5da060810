// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzScan compares the scanner with encoding/json.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,-2.5e+3,true,null,"\u00e4\n"]}`, ` { "a" : { } } `, `{"a":01}`, `{"a":"` + "\x01" + `"}`,
		`{"a":1,}`, `{"a":tru`, `{"\ud800":"\q"}`, `{"a":1}x`, `[]`, `{"a":-}`, `{"a":1.}`, `{"a"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) {
			t.Skip("encoding/json replaces what isn't UTF-8")
		}
		var want map[string]json.RawMessage
		object := json.Valid(data) && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
		got := map[string]json.RawMessage{}
		err := eachMember(data, func(name, value []byte) error {
			got[text(append(append([]byte{'"'}, name...), '"'))] = value
			return nil
		})
		if (err == nil) != object {
			t.Fatalf("error %v, want valid %t", err, object)
		}
		if err != nil {
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d members, want %d", len(got), len(want))
		}
		for name, value := range want {
			if !bytes.Equal(got[name], value) {
				t.Errorf("%q: %s, want %s", name, got[name], value)
			}
		}
		if changed := setMembers(data, member{"new", []byte("1")}); !json.Valid(changed) {
			t.Errorf("changed to %s", changed)
		}
		if changed := setMetadata(data, member{"uid", nil}); changed != nil && !json.Valid(changed) {
			t.Errorf("changed to %s", changed)
		}
	})
}

// FuzzRead reads anything: it may not panic, and objects are JSON.
func FuzzRead(f *testing.F) {
	for _, seed := range []audit{createdMap("a", "1", 1), patchedMap("a", "2", 2), deletedMap("a"),
		{verb: "patch", resource: "deployments", group: "apps", subresource: "scale", name: "a", request: `{"spec":{"replicas":2}}`,
			response: `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"uid":"u"}}`},
		{verb: "get", resource: "pods", subresource: "exec", name: "a", uri: "/api/v1/namespaces/n/pods/a/exec?command=x"},
		{verb: "deletecollection", response: `{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{}]}`}} {
		f.Add([]byte(createdMap("a", "0", 1).line() + seed.line()))
	}
	f.Add([]byte("{\n\"items\":[\n{}]}"))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"operation":"CREATE","object":{}}}`))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"operation":"CREATE","object":{"metadata":` +
		`{"uid":"u"}}},"recorded":{"time":"2026-11-27T19:00:00.000000Z","outcome":"NoNews","validating":true}}`))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, _ := readAll(t, Options{Stdin: bytes.NewReader(data)}, "-")
		for _, q := range all {
			for _, object := range [][]byte{q.Object, q.OldObject} {
				if object != nil && !json.Valid(object) {
					t.Errorf("%s: %s", q.Source, object)
				}
			}
		}
	})
}
