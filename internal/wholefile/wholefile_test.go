// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package wholefile_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gatehouse.dev/internal/wholefile"
)

// What was there stays until all of the new is, and a write that fails leaves nothing.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	write := func(content string, failure error) error {
		return wholefile.Write(name, func(out io.Writer) error {
			if _, err := io.WriteString(out, content); err != nil {
				return err
			}
			return failure
		})
	}
	expect := func(want string) {
		t.Helper()
		got, err := os.ReadFile(name)
		if want != "" && err != nil || string(got) != want {
			t.Errorf("the file has %q (%v), want %q", got, err, want)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 1 || want == "" && len(entries) > 0 {
			t.Errorf("the directory has %v (%v)", entries, err)
		}
	}
	broken := errors.New("broken off")
	if err := write("half", broken); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	expect("")
	if err := write("one", nil); err != nil {
		t.Fatal(err)
	}
	expect("one")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := write("half", broken); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	expect("one")
	if err := write("two", nil); err != nil {
		t.Fatal(err)
	}
	expect("two")
}

// Create leaves alone what is there, also if it has come while the file was being written.
func TestCreate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	text := func(text string) func(io.Writer) error {
		return func(out io.Writer) error {
			_, err := io.WriteString(out, text)
			return err
		}
	}
	if err := wholefile.Create(name, func(out io.Writer) error {
		if err := wholefile.Write(name, text("another's")); err != nil {
			t.Error(err)
		}
		return text("ours")(out)
	}); !errors.Is(err, fs.ErrExist) || err.Error() != "create "+name+": file exists" {
		t.Errorf("a file that has come meanwhile: %v", err)
	}
	if err := wholefile.Create(name, func(io.Writer) error { panic("it is written") }); !errors.Is(err, fs.ErrExist) ||
		err.Error() != "create "+name+": file already exists" {
		t.Errorf("a file that is there: %v", err)
	}
	if got, err := os.ReadFile(name); string(got) != "another's" || err != nil {
		t.Errorf("the file has %q (%v)", got, err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Create(name, text("ours")); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v)", entries, err)
	}
}

// An error speaks of the file that was to be written, and not of the temporary one.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	nothing := func(io.Writer) error { return nil }
	closed := func(out io.Writer) error {
		err := out.(io.Closer).Close()
		if err == nil {
			_, err = out.Write([]byte("text"))
		}
		return fmt.Errorf("saving: %w", err)
	}
	for _, test := range []struct {
		name  string
		write func(io.Writer) error
		want  string
	}{
		{filepath.Join(dir, "none", "file"), nothing, "create " + dir + "/none/file: no such file or directory"},
		{dir, nothing, "create " + dir + ": is no regular file"},
		{os.DevNull, nothing, "create " + os.DevNull + ": is no regular file"},
		{file, closed, "saving: write " + file + ": file already closed\nclose " + file + ": file already closed"},
	} {
		if err := wholefile.Write(test.name, test.write); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}

// An existing file keeps its mode, and a link goes on leading to it.
func TestReplace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("few users can make links, and files have no modes")
	}
	dir := t.TempDir()
	for name, target := range map[string]string{"link": "sub/../sub/file", "chain": "link", "dangling": "sub/new", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "sub", "file")
	if err := os.WriteFile(file, []byte("a longer one"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, into string
		mode       fs.FileMode
	}{
		{"sub/file", "sub/file", 0o640},
		{"link", "sub/file", 0o640},
		{"chain", "sub/file", 0o640},
		{"dangling", "sub/new", 0o600},
		{"none", "none", 0o600},
	} {
		name, into := filepath.Join(dir, test.name), filepath.Join(dir, test.into)
		note, err := wholefile.Replace(name, []byte(test.name), 0o600)
		if note != "" || err != nil {
			t.Errorf("%s: note %q, %v", test.name, note, err)
		}
		got, err := os.ReadFile(into)
		if err != nil || string(got) != test.name {
			t.Errorf("%s: %s has %q (%v)", test.name, test.into, got, err)
		}
		if info, err := os.Lstat(into); err != nil || info.Mode() != test.mode {
			t.Errorf("%s: %s has the mode %v (%v), want %v", test.name, test.into, info.Mode(), err, test.mode)
		}
	}
	if _, err := wholefile.Replace(filepath.Join(dir, "loop"), nil, 0o600); err == nil {
		t.Error("a link to itself is written")
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "sub")); err != nil || len(entries) != 2 {
		t.Errorf("the directory has %v (%v)", entries, err)
	}
	if note, err := wholefile.Replace(os.DevNull, []byte("text"), 0o600); note != "" || err != nil {
		t.Errorf("a device: note %q, %v", note, err)
	}
}
