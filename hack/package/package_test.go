// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026-12-01)\n\n" +
		"- two ([docs/a.md](docs/a.md#b), [elsewhere](https://example.com/))\n\n## 0.1.0 (2026-11-26)\n\n- one\n\n## 0.0.1 (2026-11-01)\n"
	for _, test := range []struct{ version, want, err string }{
		{"v0.2.0", "- two ([docs/a.md](https://github.com/gatehouse/gatehouse/blob/v0.2.0/docs/a.md#b), " +
			"[elsewhere](https://example.com/))\n", ""},
		{"v0.1.0", "- one\n", ""},
		{"v0.0.1", "", `CHANGELOG.md says nothing below "## 0.0.1 ("`},
		{"v0.2", "", `CHANGELOG.md has no section "## 0.2 (" with a date`},
	} {
		got, err := notes(changelog, test.version)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: got %q, %v, want %q, %q", test.version, got, err, test.want, test.err)
		}
	}
}

// files are those that TestArchives packs.
var files = []entry{{name: "program", content: []byte("runs"), executable: true}, {name: "a/text", content: []byte("says")}}

// A file as an archive has it.
type unpacked struct {
	name, content, mode string
	time                int64
}

func TestArchives(t *testing.T) {
	// MS-DOS, whose times Zip has, counts in steps of two seconds.
	at := time.Date(2026, 11, 28, 10, 1, 14, 0, time.FixedZone("CET", 3600))
	want := []unpacked{{"program", "runs", "-rwxr-xr-x", at.Unix()}, {"a/text", "says", "-rw-r--r--", at.Unix()}}
	name := filepath.Join(t.TempDir(), "packed")
	for _, zipped := range []bool{false, true} {
		if err := writeArchive(name, zipped, files, at); err != nil {
			t.Fatal(err)
		}
	}
	zipped, err := zip.OpenReader(name + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	var got []unpacked
	for _, file := range zipped.File {
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, unpacked{file.Name, read(t, content), file.Mode().String(), file.Modified.Unix()})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("zip has %v, want %v", got, want)
	}
	packed, err := os.ReadFile(name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if got := untar(t, packed); !reflect.DeepEqual(got, want) {
		t.Errorf("tar has %v, want %v", got, want)
	}
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// untar returns the files of an archive. It fails if one belongs to somebody.
func untar(t *testing.T, archive []byte) (files []unpacked) {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to %d %s", header.Name, header.Uid, header.Uname)
		}
		files = append(files, unpacked{header.Name, read(t, r), header.FileInfo().Mode().String(), header.ModTime.Unix()})
	}
}

// TestLegalFiles finds licences beside packages, and fails if a module has none.
func TestLegalFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"licensed/COPYING", "licensed/NOTICE.txt", "licensed/license.go", "licensed/fork/LICENSE-MIT",
		"licensed/fork/deep/x.go", "licensed/unused/LICENSE", "unlicensed/licenses.md", "unlicensed/x.go"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	licensed := filepath.Join(dir, "licensed")
	got, err := module{dir: licensed, packages: []string{filepath.Join(licensed, "fork/deep"), licensed}}.legalFiles()
	want := []string{licensed + "/COPYING", licensed + "/NOTICE.txt", licensed + "/fork/LICENSE-MIT"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	unlicensed := filepath.Join(dir, "unlicensed")
	if got, err := (module{name: "example.com v1.0.0", dir: unlicensed}).legalFiles(); err == nil ||
		!strings.HasPrefix(err.Error(), "example.com v1.0.0 has no file with a licence") {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestForeignPrograms refuses programs that don't say where they come from.
func TestForeignPrograms(t *testing.T) {
	dir := t.TempDir()
	if _, err := findPrograms(dir); err == nil || !strings.Contains(err.Error(), "build them with hack/release") {
		t.Errorf("an empty directory: %v", err)
	}
	// The test's own program has no commit.
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, filepath.Join(dir, "gatehouse-linux-amd64")); err != nil {
		t.Fatal(err)
	}
	if _, err := findPrograms(dir); err == nil || !strings.Contains(err.Error(), "doesn't say its commit") {
		t.Errorf("a program without a commit: %v", err)
	}
}
