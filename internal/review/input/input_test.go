// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/input"
)

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		want   []string
		errors []string
	}{
		"nothing": {"", nil, nil},
		"many documents": {"# a comment\n\nkind: A\napiVersion: v1\n---\n---\n# only this\n---\nkind: " +
			"B\napiVersion: v1\n",
			[]string{"-:3 A", "-:9 B"}, nil},
		"JSON": {`{"kind":"A","apiVersion":"v1"}`, []string{"-:1 A"}, nil},
		"JSON, without anything between": {`{"kind":"A","apiVersion":"v1"}` + "\n\n" +
			`{"kind":"B",` + "\n" + `"apiVersion":"v1"} {"kind":"C","apiVersion":"v1"}` + "\n",
			[]string{"-:1 A", "-:3 B", "-:4 C"}, nil},
		"an end of a document": {"kind: A\napiVersion: v1\n...\nkind: B\napiVersion: v1\n", []string{"-:1 A", "-:4 B"},
			nil},
		"JSON, and what isn't": {`{"kind":"A","apiVersion":"v1"}` + "\n" + `{"kind":` + "\n", []string{"-:1 A"},
			[]string{"-:2: did not find expected node content"}},
		"a key twice in JSON": {`{"kind":"A","kind":"A","apiVersion":"v1"}`, nil,
			[]string{`-:1: key "kind" already set in map`}},
		"a list": {"kind: List\napiVersion: v1\nitems:\n- {kind: A, apiVersion: v1}\n- {kind: B, apiVersion: v1}\n",
			[]string{"-:4 A", "-:5 B"}, nil},
		"a list of nothing": {"kind: List\napiVersion: v1\nitems: null\n---\nkind: PodList\napiVersion: " +
			"v1\nitems:\n", nil,
			nil},
		"a list of a kind": {"kind: FooList\napiVersion: example.com/v1\nitems:\n- {a: b}\n- {kind: B, " +
			"apiVersion: v1}\n",
			[]string{"-:4 Foo", "-:5 B"}, nil},
		"a list of lists": {"kind: List\napiVersion: v1\nitems:\n- kind: PodList\n  apiVersion: v1\n  items: " +
			"[{}, {}]\n" +
			"- {kind: B, apiVersion: v1}\n", []string{"-:4 Pod", "-:4 Pod", "-:7 B"}, nil},
		"broken, and what follows": {"kind: A\n\tx: y\n---\nkind: B\napiVersion: v1\n", []string{"-:4 B"},
			[]string{"-:2: found a tab character that violates indentation"}},
		"what is indented too little": {"kind: A\nmetadata:\n  name: b\n data: x\n", nil,
			[]string{"-:4: did not find expected key"}},
		"the same, further in": {"kind: B\napiVersion: v1\n---\nkind: A\nspec:\n  a:\n    b: c\n   d: e\nz: y\n",
			[]string{"-:1 B"}, []string{"-:8: did not find expected key"}},
		"a brace that is open": {"kind: A\nspec: {a: b\nx: y\nz: w\n", nil,
			[]string{"-:3: did not find expected ',' or '}'"}},
		"a key twice": {"kind: A\nkind: A\napiVersion: v1\n", nil, []string{`-:2: key "kind" already set in map`}},
		"no kind":     {"a: b\n", nil, []string{"-:1: no object: apiVersion and kind must be set"}},
		"a text":      {"hello\n", nil, []string{"-:1: no object: it is a text"}},
		"an item without kind": {"kind: List\napiVersion: v1\nitems:\n- {kind: A}\n", nil,
			[]string{"-:4: items[0]: apiVersion and kind must be set"}},
		"a template": {"kind: A\napiVersion: v1\nmetadata:\n  name: {{ .Values.name }}\n", nil, []string{
			"-:4: a template that was not rendered: it has {{ … }} (render it first: helm template … | gatehouse " +
				"review -f -)"}},
	} {
		t.Run(name, func(t *testing.T) {
			documents, errs := input.Read([]string{"-"}, strings.NewReader(test.text))
			if diff := cmp.Diff(test.want, kinds(documents)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(test.errors, texts(errs)); diff != "" {
				t.Errorf("errors: -want +got:\n%s", diff)
			}
		})
	}
}

func TestReadDirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("b.yaml", "{kind: B, apiVersion: v1}")
	write("a/a.json", `{"kind":"A","apiVersion":"v1"}`)
	write("README.md", "no manifest")
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := input.Read([]string{dir}, nil); len(errs) != 1 || errs[0].Error() != pipe+": it is not a regular file" {
		t.Errorf("of a pipe: %v", errs)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	documents, errs := input.Read([]string{dir}, nil)
	if diff := cmp.Diff([]string{filepath.Join(dir, "a/a.json") + ":1 A", filepath.Join(dir, "b.yaml") + ":1 B"},
		kinds(documents)); diff != "" || errs != nil {
		t.Errorf("-want +got:\n%s%v", diff, errs)
	}
	_, errs = input.Read([]string{dir, filepath.Join(dir, "none"), t.TempDir()}, nil)
	for i, want := range []string{"no such file", "no manifests in it"} {
		if i >= len(errs) || !strings.Contains(errs[i].Error(), want) {
			t.Errorf("the errors are %v, want one that says %s", errs, want)
		}
	}
}

// A chart's files are left out of a directory, and a note says how to judge it. A file that is named is read in any case.
func TestLeftOut(t *testing.T) {
	tree(t, map[string]string{
		"flux/kustomization.yaml":   "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n",
		"chart/Chart.yaml":          "apiVersion: v2\nname: shop\n",
		"chart/values.yaml":         "replicas: 3\n",
		"chart/values-ci.yaml":      "replicas: 1\n",
		"chart/crds/c.json":         `{"apiVersion":"v1","kind":"C"}`,
		"chart/values.schema.json":  "{}",
		"chart/node/package.json":   "{}",
		"other/values.yaml":         object,
		"other/tests/broken.yaml":   "- a",
		"other/tests/unit/no.yaml":  "- a",
		"other/skipped/kept/x.yaml": object,
		"other/skipped/y.yaml":      "- a",
	})
	reader := &input.Reader{Exclude: []string{"tests", "other/skipped/*.yaml"}}
	documents, errs := reader.Read(t.Context(), []string{"."})
	if errs != nil {
		t.Error(errs)
	}
	want := []string{"chart/crds/c.json:1 C", "flux/kustomization.yaml:1 Kustomization",
		"other/skipped/kept/x.yaml:1 A", "other/values.yaml:1 A"}
	if diff := cmp.Diff(want, kinds(documents)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"chart/Chart.yaml, chart/values-ci.yaml, chart/values.yaml: left out, for helm makes manifests by it: helm " +
			"template chart | gatehouse review -f -",
		"chart/node/package.json and 1 more JSON file: left out, for they are no objects: they have no apiVersion",
	}, reader.Notes()); diff != "" {
		t.Errorf("notes: -want +got:\n%s", diff)
	}
	if _, errs := input.Read([]string{"chart/values.yaml"}, nil); len(errs) != 1 {
		t.Errorf("of a file that is named: %v", errs)
	}
	if _, errs := (&input.Reader{Exclude: []string{"["}}).Read(t.Context(), []string{"."}); len(errs) != 1 {
		t.Errorf("of a pattern that is none: %v", errs)
	}
}

// Of fields that are there twice the last counts, if the reader is lax, as it does for kubectl.
// Source: kubectl apply -f, of version 1.32, with any --validate.
func TestLax(t *testing.T) {
	reader := &input.Reader{Stdin: strings.NewReader("kind: A\napiVersion: v1\ndata: a\ndata: b\n---\n" +
		`{"kind":"A","apiVersion":"v1","data":"a","data":"b"}`), Lax: true}
	documents, errs := reader.Read(t.Context(), []string{"-"})
	if errs != nil || len(documents) != 2 {
		t.Fatal(documents, errs)
	}
	for _, d := range documents {
		if d.Object.Object["data"] != "b" {
			t.Errorf("%s: %v", d.Source, d.Object)
		}
	}
}

// Whatever is read, nothing panics, and every document has its line.
func FuzzRead(f *testing.F) {
	f.Add("kind: A\napiVersion: v1\n---\n{{")
	f.Add("- a\n---\n%YAML 1.1\n---\nkind: List\nitems: [1]\napiVersion: v1")
	f.Fuzz(func(t *testing.T, text string) {
		documents, _ := input.Read([]string{"-"}, strings.NewReader(text))
		for _, d := range documents {
			if d.Source.Line < 1 || d.Object.GetKind() == "" {
				t.Errorf("%q: %v", text, d)
			}
		}
	})
}

func kinds(documents []input.Document) []string {
	var all []string
	for _, d := range documents {
		all = append(all, fmt.Sprintf("%s %s", d.Source, d.Object.GetKind()))
	}
	return all
}

func texts(errs []error) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}
