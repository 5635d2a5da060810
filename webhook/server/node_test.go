// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
)

// A node has the children that encoding/json finds, at any depth.
func FuzzNode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `"a"`, ` {"a" : 1 , "b":[ ] }`, `{"a":{"b":[1,{"c":"d"},"e",[[]],true]},"f":-1.5e3}`,
		`{"a\"b":"]}","\\":"\\","\u00e9":"\\\"","":{}}`, `{"a":1,"a":2}`, `[[[{"a":[{}]}]]]`, "[1\t,\n\"x,y:z\"\r,null]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if !json.Valid(document) {
			(&node{value: document}).child("a") // finds anything, but ends
			return
		}
		compareChildren(t, &node{value: bytes.TrimSpace(document)})
	})
}

func compareChildren(t *testing.T, n *node) {
	want := map[string]json.RawMessage{}
	switch n.kind() {
	case '{':
		if err := json.Unmarshal(n.value, &want); err != nil {
			t.Fatal(err)
		}
	case '[':
		var elements []json.RawMessage
		if err := json.Unmarshal(n.value, &elements); err != nil {
			t.Fatal(err)
		}
		for i, element := range elements {
			want[strconv.Itoa(i)] = element
		}
	}
	if n.child("no such child, as it were"); len(n.children) != len(want) {
		t.Fatalf("%s has %d children, want %d", n.value, len(n.children), len(want))
	}
	for name, value := range want {
		child := n.child(name)
		if child == nil || !bytes.Equal(child.value, value) {
			t.Fatalf("child %q of %s is %v, want %s", name, n.value, child, value)
		}
		compareChildren(t, child)
	}
}
