// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/suite"
)

// What was expected becomes what is, and other lines of the file stay as they are written.
func TestRewrite(t *testing.T) {
	const before = head + `  cases:
  # The first.
  - name:   one   # oddly written
    object: {apiVersion: v1, kind: Pod}
    expect:
      verdict: Admitted
      object:
        # Of the pod.
        spec:
          priority: 1 # by the class
          hostname: "a"
          gone: true
          never: null
          containers:
          - name: c # the only one
            image: 'x:1'
        status: {phase: Pending}

    # Between.
    table:
    - {name: row, expect: {object: {spec: {priority: 1}, "odd": 'it''s {'}}, set: {}}  # ü
    - {name: other}
    - name: last
      expect: {verdict: Admitted, object: {}}
  - name: two
    object: {apiVersion: v1, kind: Pod}
    expect:
      object: {}
      verdict: Admitted
# The end.
`
	const after = head + `  cases:
  # The first.
  - name:   one   # oddly written
    object: {apiVersion: v1, kind: Pod}
    expect:
      verdict: Admitted
      object:
        # Of the pod.
        spec:
          priority: 2 # by the class
          hostname: "b"
          never: null
          containers:
          - name: c # the only one
            image: 'x:2'
          - name: sidecar
        status: {phase: Pending}

    # Between.
    table:
    - {name: row, expect: {object: {spec: {priority: 2}}}, set: {}} # ü
    - {name: other}
    - name: last
      expect: {verdict: Admitted, object: {spec: {priority: 2}}}
  - name: two
    object: {apiVersion: v1, kind: Pod}
    expect:
      object:
        spec:
          containers:
          - name: c
            tty: true
          priority: 2
      verdict: Admitted
# The end.
`
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	suites, errs := suite.Read(t.Context(), []string{path})
	if errs != nil {
		t.Fatal(errs)
	}
	type object = map[string]any
	priority := object{"priority": int64(2)}
	whole := object{"spec": object{"priority": int64(2), "hostname": "b", "containers": []any{
		object{"name": "c", "image": "x:2"}, object{"name": "sidecar"}}}, "status": object{"phase": "Pending"}}
	got := []object{{"spec": priority}, whole, {"spec": priority},
		{"spec": object{"priority": int64(2), "containers": []any{object{"name": "c", "tty": true}}}}}
	var updates []suite.Update
	for i := range suites[0].Cases {
		updates = append(updates, suite.Update{Case: &suites[0].Cases[i], Object: got[i]})
	}
	n, notes, err := suite.Rewrite(updates)
	if err != nil || n != 4 || notes != nil {
		t.Errorf("%d written, %q, %v", n, notes, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, string(data)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

func TestDifferences(t *testing.T) {
	type object = map[string]any
	got := object{"a": int64(1), "b": object{"c": "x"}, "l": []any{object{"n": "1", "o": true}, "y"}}
	for _, test := range []struct {
		expected object
		want     []suite.Difference
	}{
		{object{"a": 1.0, "b": object{}, "z": nil, "l": []any{object{"n": "1"}, "y"}}, nil},
		{object{"a": "1"}, []suite.Difference{{"a", "1", int64(1)}}},
		{object{"b": object{"c": nil, "d.e/f": "x"}}, []suite.Difference{{"b.c", suite.Absent, "x"},
			{"b[d.e/f]", "x", suite.Absent}}},
		{object{"b": "x"}, []suite.Difference{{"b", "x", object{"c": "x"}}}},
		{object{"l": []any{object{"n": "2"}, "y"}}, []suite.Difference{{"l[0].n", "2", "1"}}},
		{object{"l": []any{"y"}}, []suite.Difference{{"l", []any{"y"}, got["l"]}}},
	} {
		if diff := cmp.Diff(test.want, suite.Differences("", test.expected, got)); diff != "" {
			t.Errorf("%v: -want +got:\n%s", test.expected, diff)
		}
	}
}
