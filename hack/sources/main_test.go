// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

// TestReferences checks the project's own references: the sources of the versions in go.mod are those
// that were read.
func TestReferences(t *testing.T) {
	clone(t)
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
}

// clone returns the directory of the project's clone.
func clone(t *testing.T) string {
	t.Helper()
	needs.Programs(t, "git")
	root, err := output(t.Context(), "git", "rev-parse", "--show-toplevel")
	if err != nil {
		needs.Missing(t, "a clone: %v", err)
	}
	return strings.TrimSpace(root)
}

// TestForm checks that comments refer to Kubernetes' sources in the form that can be checked. Sources
// of releases that are long gone are described in words: "of Kubernetes 1.13".
func TestForm(t *testing.T) {
	root := clone(t)
	listed, err := output(t.Context(), "git", "-C", root, "ls-files", "*.go", ":!*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if listed == "" {
		t.Fatal("git lists no files")
	}
	for name := range strings.Lines(listed) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if !strings.Contains(line, "// Source: ") || form.MatchString(line) {
				continue
			}
			if words := paragraph(lines[i:]); strings.Contains(words, "k8s.io/") && !strings.Contains(words, "of Kubernetes 1.") {
				t.Errorf("%s:%d: write it as go run ./hack/sources -hash prints it: %s", name, i+1, words)
			}
		}
	}
}

// paragraph returns the words of a comment's lines, up to an empty one or the end of the comment.
func paragraph(lines []string) string {
	var words []string
	for _, line := range lines {
		text, isComment := strings.CutPrefix(strings.TrimSpace(line), "// ")
		if !isComment {
			break
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// module returns a module k8s.io/example with one file.
func module(t *testing.T, text string) modules {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pkg"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"pkg/example.go": text, "pkg/example_test.go": "package example\n",
		"pkg/example.proto": "message Example {}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return modules{"k8s.io/example": dir}
}

const before = `package example

// Limit is the limit.
const Limit = 10

type counter[T any] struct{ n int }

// add adds.
func (c *counter[T]) add() {
	// It is one.
	c.n++
}
`

// hashIn returns the hash of a reference in a module of that text, or its error.
func hashIn(t *testing.T, text, to string) string {
	t.Helper()
	source, err := module(t, text).source(to)
	if err != nil {
		return err.Error()
	}
	return source.hash()
}

func TestHash(t *testing.T) {
	const file = "k8s.io/example/pkg/example.go"
	replaced := func(old, new string) string { return strings.Replace(before, old, new, 1) }
	for _, c := range []struct {
		name, to, after string
		same            bool
	}{
		{"a comment is another", file + "#counter.add", replaced("// It is one.", "// It is\n\t// one more."), true},
		{"a comment is gone", file, replaced("// It is one.\n", ""), true},
		{"another declaration is changed", file + "#Limit", replaced("c.n++", "c.n += 2"), true},
		{"a method is changed", file + "#counter.add", replaced("c.n++", "c.n += 2"), false},
		{"a method is changed, which is named alone", file + "#add", replaced("c.n++", "c.n += 2"), false},
		{"a constant is changed", file + "#Limit", replaced("10", "11"), false},
		{"a type is changed", file + "#counter", replaced("n int", "n int64"), false},
		{"a file is changed", file, replaced("10", "11"), false},
		{"a directory is changed", "k8s.io/example/pkg", replaced("10", "11"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			was, is := hashIn(t, before, c.to), hashIn(t, c.after, c.to)
			if !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(was) || (was == is) != c.same {
				t.Errorf("the hash was %s and is %s, want the same: %t", was, is, c.same)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for to, want := range map[string]string{
		"k8s.io/example/pkg/example.go#Other":      "k8s.io/example/pkg/example.go#Other is not there",
		"k8s.io/example/pkg/example.go#Other.add":  "k8s.io/example/pkg/example.go#Other.add is not there",
		"k8s.io/example/other.go":                  "k8s.io/example/other.go is not there",
		"k8s.io/other/pkg":                         "no module that go.mod requires has k8s.io/other/pkg",
		"k8s.io/example/pkg/example.proto#Example": "name the file alone",
	} {
		if got := hashIn(t, before, to); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

// TestCheck checks that a reference to a source that is another or gone is found, and that a reference
// that can't be checked is a failure of another kind.
func TestCheck(t *testing.T) {
	now := module(t, before)
	const to = "k8s.io/example/pkg/example.go#Limit"
	hash := hashIn(t, before, to)
	for _, c := range []struct {
		name  string
		found []reference
		code  int
	}{
		{"as it was read", []reference{{"a.go", 1, to, hash}}, 0},
		{"changed", []reference{{"a.go", 1, to, "00000000"}}, 1},
		{"gone", []reference{{"a.go", 1, to + "s", hash}}, 1},
		{"in no module", []reference{{"a.go", 1, "k8s.io/other", hash}}, 2},
		{"no references", nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := check(&out, c.found, now); exitCode(err) != c.code {
				t.Errorf("exit code %d, want %d: %v\n%s", exitCode(err), c.code, err, &out)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	old, now := module(t, before), module(t, strings.Replace(before, "10", "11", 1))
	var out bytes.Buffer
	found := []reference{{"a.go", 7, "k8s.io/example/pkg/example.go#Limit", "00000000"},
		{"b.go", 8, "k8s.io/example/pkg/example.go#counter", "00000000"}}
	if err := showChanges(t.Context(), &out, found, old, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"read by a.go:7\n", "-Limit = 10\n", "+Limit = 11\n", "1 of 2 sources have changed."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "b.go") {
		t.Errorf("what has not changed is shown:\n%s", &out)
	}
}
