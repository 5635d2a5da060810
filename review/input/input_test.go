package input_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/review/input"
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
	if _, errs := input.Read([]string{dir}, nil); len(errs) != 1 || errs[0].Error() != pipe+": it is no regular file" {
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
	if err := os.Symlink(dir, filepath.Join(dir, "a/loop")); err != nil {
		t.Fatal(err)
	}
	_, errs = input.Read([]string{dir, filepath.Join(dir, "none"), t.TempDir()}, nil)
	for i, want := range []string{"a link that leads to a directory above it", "no such file", "no manifests in it"} {
		if i >= len(errs) || !strings.Contains(errs[i].Error(), want) {
			t.Errorf("the errors are %v, want one that says %s", errs, want)
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
