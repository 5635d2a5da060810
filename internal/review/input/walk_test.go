// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/input"
)

// tree makes a directory with files and links, whose content begins with "->", and works there.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if target, isLink := cut(content); err == nil && isLink {
			err = os.Symlink(target, name)
		} else if err == nil {
			err = os.WriteFile(name, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func cut(content string) (string, bool) {
	if len(content) > 2 && content[:2] == "->" {
		return content[2:], true
	}
	return "", false
}

const object = "kind: A\napiVersion: v1\n"

// Links to directories aren't followed, those to files are; a file is read once, however many paths
// lead to it.
func TestFilesAreReadOnce(t *testing.T) {
	tree(t, map[string]string{
		"a/x.yaml": object, "a/b/y.yaml": object, "a/b/c/z.yaml": object,
		"a/loop": "->..", "a/out.yaml": "->../elsewhere", "a/same.yaml": "->b/y.yaml", "a/dangling": "->nowhere",
		"elsewhere/w.yaml": object,
	})
	for name, test := range map[string]struct{ paths, want []string }{
		"a folder": {[]string{"a"}, []string{"a/b/c/z.yaml:1 A", "a/b/y.yaml:1 A", "a/x.yaml:1 A"}},
		"twice": {[]string{"a", "./a"}, []string{"a/b/c/z.yaml:1 A", "a/b/y.yaml:1 A",
			"a/x.yaml:1 A"}},
		"and one in it": {[]string{"a", "a/b"}, []string{"a/b/c/z.yaml:1 A", "a/b/y.yaml:1 A",
			"a/x.yaml:1 A"}},
		"one in it, and it": {[]string{"a/b", "a"}, []string{"a/b/c/z.yaml:1 A", "a/b/y.yaml:1 A",
			"a/x.yaml:1 A"}},
		"one by a link":          {[]string{"a/loop/a/b/c"}, []string{"a/loop/a/b/c/z.yaml:1 A"}},
		"a file, and its folder": {[]string{"a/b/c/z.yaml", "a/b/c"}, []string{"a/b/c/z.yaml:1 A"}},
	} {
		t.Run(name, func(t *testing.T) {
			reader := &input.Reader{}
			documents, errs := reader.Read(t.Context(), test.paths)
			if diff := cmp.Diff(test.want, kinds(documents)); diff != "" || errs != nil {
				t.Errorf("-want +got:\n%s%v", diff, errs)
			}
			const note = "a/loop, a/out.yaml: left out, for links to directories aren't followed, as kubectl " +
				"doesn't: " +
				"name what they lead to"
			if notes := reader.Notes(); test.paths[0] == "a" && !cmp.Equal(notes[:1], []string{note}) {
				t.Errorf("the notes are %q", notes)
			}
		})
	}
}

// Nobody writes to a pipe that is named; the end of the context ends reading nevertheless.
func TestReadingIsInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 1)
	go func() {
		_, errs := (&input.Reader{}).Read(ctx, []string{pipe})
		done <- errs
	}()
	cancel()
	if errs := <-done; len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("the errors are %v", errs)
	}
	// What was abandoned ends, too.
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	writer.Close()
}

// A reader that is held within folders reads nothing outside of them, by no path and no link.
func TestWithin(t *testing.T) {
	tree(t, map[string]string{
		"in/a.yaml": object, "in/b/to-a.yaml": "->../a.yaml", "in/to-out.yaml": "->../out/o.yaml",
		"in/to-out": "->../out", "out/o.yaml": object, "inside/i.yaml": object, "also/c.yaml": object,
	})
	absolute, err := filepath.Abs("out/o.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(absolute, "in/absolute.yaml"); err != nil {
		t.Fatal(err)
	}
	for path, may := range map[string]bool{
		"in/a.yaml": true, "in/b": true, "in/b/to-a.yaml": true, "also": true, "also/c.yaml": true,
		"in/to-out.yaml": false, "in/to-out/o.yaml": false, "in/to-out": false, "in/absolute.yaml": false,
		"out": false, "in/../out/o.yaml": false, absolute: false, "inside/i.yaml": false, "in": false, ".": false,
	} {
		documents, errs := (&input.Reader{Within: input.Folders{"in", "also"}}).Read(t.Context(), []string{path})
		switch {
		case may && (len(documents) != 1 || errs != nil):
			t.Errorf("%s: %v, %v", path, kinds(documents), errs)
		case !may && (len(errs) == 0 || !errors.Is(errs[0], input.ErrOutside)):
			t.Errorf("%s: %v, %v", path, kinds(documents), errs)
		}
		for _, d := range documents {
			if d.Source.File == "in/to-out.yaml" || d.Source.File == "in/absolute.yaml" {
				t.Errorf("%s was read", d.Source)
			}
		}
	}
}

// Suites of gatehouse test are no objects of a cluster. What stands beside them is read.
func TestSuitesAreLeftOut(t *testing.T) {
	const suite = "kind: AdmissionTest\napiVersion: gatehouse.dev/v1alpha1\nspec: {cases: [{name: a}]}\n"
	tree(t, map[string]string{"a/x.yaml": object + "---\n" + suite, "a/y.yaml": suite, "b.yaml": suite, "c.json": `{"kind":
"AdmissionTest", "apiVersion": "gatehouse.dev/v1"}`})
	for path, test := range map[string]struct {
		want []string
		note string
	}{
		"a":      {[]string{"a/x.yaml:1 A"}, "a/x.yaml and 1 more file: their suites are left out: gatehouse test judges them"},
		"b.yaml": {nil, "b.yaml: its suite is left out: gatehouse test b.yaml judges it"},
		"c.json": {nil, "c.json: its suite is left out: gatehouse test c.json judges it"},
	} {
		reader := &input.Reader{}
		documents, errs := reader.Read(t.Context(), []string{path})
		if diff := cmp.Diff(test.want, kinds(documents)); diff != "" || errs != nil {
			t.Errorf("%s: -want +got:\n%s%v", path, diff, errs)
		}
		if diff := cmp.Diff([]string{test.note}, reader.Notes()); diff != "" {
			t.Errorf("%s: notes: -want +got:\n%s", path, diff)
		}
		streamed := &input.Reader{}
		var told []input.Document
		err := streamed.Each(t.Context(), []string{path}, func(d input.Document, err *input.Error) error {
			told = append(told, d)
			return nil
		})
		if diff := cmp.Diff(test.want, kinds(told)); diff != "" || err != nil || !cmp.Equal(streamed.Notes(), reader.Notes()) {
			t.Errorf("%s: read one by one: -want +got:\n%s%v, %q", path, diff, err, streamed.Notes())
		}
	}
}
