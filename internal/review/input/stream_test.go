// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/input"
)

// streamed returns what Each tells of a text, and its error.
func streamed(t *testing.T, text string) (told []string, err error) {
	t.Helper()
	reader := &input.Reader{Stdin: strings.NewReader(text)}
	err = reader.Each(t.Context(), []string{"-"}, func(d input.Document, problem *input.Error) error {
		if problem != nil {
			told = append(told, problem.Error())
			return nil
		}
		told = append(told, kinds([]input.Document{d})...)
		return nil
	})
	return told, err
}

const yamlList = `apiVersion: v1
items:
# the first
- apiVersion: v1
  kind: A
  text: |
    - no item
    items:

  last: {}
-
  apiVersion: v1
  kind: B
- {apiVersion: v1, kind: C}
kind: List
metadata: {}
`

const jsonList = `{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "A"
        },
        {"apiVersion": "v1", "kind": "B"}
    ],
    "kind": "List"
}
`

// The objects of a stream are told one by one, whatever form it has.
func TestEach(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"nothing": {"", nil},
		"documents": {"---\nkind: A\napiVersion: v1\n---\n# none\n---\nkind: B\napiVersion: v1\n",
			[]string{"-:2 A", "-:7 B"}},
		"a list": {yamlList, []string{"-:4 A", "-:12 B", "-:14 C"}},
		"an indented list": {"items:\n  - kind: A\n    apiVersion: v1\n  - kind: B\n    apiVersion: v1\nkind: List\n",
			[]string{"-:2 A", "-:4 B"}},
		"lists": {yamlList + "---\n" + yamlList,
			[]string{"-:4 A", "-:12 B", "-:14 C", "-:21 A", "-:29 B", "-:31 C"}},
		"a list of nothing": {"apiVersion: v1\nitems: []\nkind: List\n", nil},
		"a list of null":    {"apiVersion: v1\nitems:\nkind: List\n", nil},
		"JSON": {`{"kind":"A","apiVersion":"v1"}` + "\n" + `{"kind":"B","apiVersion":"v1"}`,
			[]string{"-:1 A", "-:2 B"}},
		"JSON documents": {`{"kind":"A","apiVersion":"v1"}` + "\n---\n" + `{"kind":"B","apiVersion":"v1"}` + "\n---",
			[]string{"-:1 A", "-:3 B"}},
		"a JSON list": {jsonList, []string{"-:4 A", "-:8 B"}},
		"JSON lists":  {jsonList + "---\n" + jsonList, []string{"-:4 A", "-:8 B", "-:16 A", "-:20 B"}},
		"a JSON list of null": {
			`{"kind": "List", "apiVersion": "v1", "items": null}`, nil},
		"a list of pods": {`{"kind": "PodList", "apiVersion": "v1", "items": [{"a": 1}, {}]}`,
			[]string{"-:1 Pod", "-:1 Pod"}},
		"a flow document": {"{kind: A, apiVersion: v1}\n", []string{"-:1 A"}},
		"what is broken, and what follows": {"kind: A\n\tx: y\n---\nkind: B\napiVersion: v1\n",
			[]string{"-:2: found a tab character that violates indentation", "-:4 B"}},
		"an item that is broken": {"items:\n- kind: A\n   x: y\n- kind: B\n  apiVersion: v1\n",
			[]string{"-:3: mapping values are not allowed in this context", "-:4 B"}},
	} {
		t.Run(name, func(t *testing.T) {
			told, err := streamed(t, test.text)
			if diff := cmp.Diff(test.want, told); diff != "" || err != nil {
				t.Errorf("%v -want +told:\n%s", err, diff)
			}
		})
	}
}

// A stream whose rest can't be divided into objects is an error.
func TestEachFails(t *testing.T) {
	for text, want := range map[string]string{
		jsonList[:60]:                      "-:4: the file ends within an object: it is cut off",
		`{"kind": }`:                       "-:1: this is no JSON: invalid character '}' looking for beginning of value",
		`{"items": {}}`:                    "-:1: items must be a list",
		`{"kind":"A","apiVersion":"v1"} 5`: "-:1: no object: it begins with 5",
		"items:\n  [{kind: A}]\n":          `-:2: the items of a list must begin with "- ", each on a line of its own`,
	} {
		if _, err := streamed(t, text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}

// A file of any size needs little memory.
func TestEachNeedsLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 60 MiB")
	}
	item := "- kind: A\n  apiVersion: v1\n  text: " + strings.Repeat("x", 1<<16) + "\n"
	const items = 1000
	in, out := io.Pipe()
	go func() {
		fmt.Fprint(out, "items:\n")
		for range items {
			fmt.Fprint(out, item)
		}
		out.Close()
	}()
	n, most := 0, uint64(0)
	reader := &input.Reader{Stdin: in}
	err := reader.Each(t.Context(), []string{"-"}, func(input.Document, *input.Error) error {
		if n++; n%200 == 0 {
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			most = max(most, memory.HeapAlloc)
		}
		return nil
	})
	if err != nil || n != items || most > 20<<20 {
		t.Errorf("%d items, %d bytes, %v", n, most, err)
	}
}

// An object that is too large ends the stream.
func TestEachIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 96 MiB")
	}
	for _, text := range []string{
		"kind: A\napiVersion: v1\ntext: " + strings.Repeat("x", input.MaxFile),
		`{"kind": "A", "text": "` + strings.Repeat("x", input.MaxFile+1<<20) + `"}`,
		"kind: A\n" + strings.Repeat("x: y\n", input.MaxFile/5),
	} {
		if _, err := streamed(t, text); err == nil || !strings.Contains(err.Error(), "an object of more than 32 MiB") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// An error of the caller ends the stream.
func TestEachEnds(t *testing.T) {
	want := errors.New("enough")
	for _, text := range []string{yamlList, jsonList} {
		reader, n := &input.Reader{Stdin: strings.NewReader(text)}, 0
		err := reader.Each(t.Context(), []string{"-"}, func(input.Document, *input.Error) error {
			n++
			return want
		})
		if !errors.Is(err, want) || n != 1 {
			t.Errorf("%d told, %v", n, err)
		}
	}
}

// Each tells what Read tells of the same text. Items that need the kind of their list are errors.
func FuzzEach(f *testing.F) {
	f.Add(yamlList)
	f.Add(jsonList)
	f.Add("kind: A\napiVersion: v1\n---\n{{")
	f.Add(`{"kind":"A","apiVersion":"v1"} {"items":[{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		told, err := streamed(t, text)
		documents, errs := input.Read([]string{"-"}, strings.NewReader(text))
		if err != nil || len(errs) > 0 || strings.Contains(strings.Join(told, "\n"), "must be set") {
			return
		}
		if want := kinds(documents); !cmp.Equal(want, told) {
			t.Errorf("%q: %q, and read as a whole %q", text, told, want)
		}
	})
}
