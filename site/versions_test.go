// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteVersions(t *testing.T) {
	into := t.TempDir()
	one := []*page{{URL: "docs/a.html"}}
	for _, b := range []*builder{
		{version: "v0.1.0", order: one},
		{version: "v0.1.0", directory: "v0.1", order: one},
		{version: "v0.2.0"},
		{version: "v0.1.1", directory: "v0.1"},
	} {
		b.into = into
		if err := b.writeVersions(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(into, "versions.js"))
	const want = `const versions = [{"name":"v0.2.0","directory":"","pages":["index.html"]},` +
		`{"name":"v0.1.1","directory":"v0.1/","pages":["index.html"]}];` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("versions.js is %s, %v, want %s", got, err, want)
	}
	if err := os.WriteFile(filepath.Join(into, "versions.js"), []byte("alert()"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (&builder{into: into}).writeVersions(); err == nil {
		t.Error("another file is overwritten, want an error")
	}
}
