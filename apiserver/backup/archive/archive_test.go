// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"gatehouse.dev/test/needs"
)

var made = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

// write is an archive of a snapshot and of two keys.
func write(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, made)
	for name, content := range map[string]string{"ca.crt": "certificate", "ca.key": "key"} {
		if err := w.Key(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := strings.Repeat("snapshot", 200)
	if err := w.Snapshot(int64(len(snapshot)), func(out io.Writer) error {
		_, err := io.WriteString(out, snapshot)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(data []byte) (files map[string]string, at time.Time, err error) {
	files = map[string]string{}
	err = Read(bytes.NewReader(data), func(name string, content []byte) error {
		files[name] = string(content)
		return nil
	}, func(content io.Reader, size int64, made time.Time) error {
		data, err := io.ReadAll(content)
		if int64(len(data)) != size && err == nil {
			err = io.ErrUnexpectedEOF
		}
		files[Snapshot], at = string(data), made
		return err
	})
	return files, at, err
}

func TestRead(t *testing.T) {
	files, at, err := read(write(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ca.crt": "certificate", "ca.key": "key", Snapshot: strings.Repeat("snapshot", 200)}
	if !maps.Equal(files, want) {
		t.Errorf("read %v", files)
	}
	if !at.Equal(made.Truncate(time.Second)) {
		t.Errorf("it says it was made at %s", at)
	}
}

// An archive that lacks its last byte, or any more, is no archive; neither is one of which any byte
// was changed that says something.
func TestReadNothingLess(t *testing.T) {
	whole := write(t)
	for size := range whole {
		if _, _, err := read(whole[:size]); err == nil {
			t.Fatalf("the first %d bytes of %d are taken for all", size, len(whole))
		} else if size%block == 0 && size > 0 && !strings.HasPrefix(err.Error(), "it is cut") &&
			!strings.HasPrefix(err.Error(), "it is no backup") {
			t.Errorf("the first %d bytes: %v", size, err)
		}
	}
	files, _, err := read(whole)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		if got, _, err := read(changed); err == nil && !maps.Equal(got, files) {
			t.Errorf("with byte %d of %d changed it reads %v", at, len(whole), got)
		}
	}
}

// Nothing may follow an archive's end: neither padding nor another archive.
func TestReadNothingMore(t *testing.T) {
	whole := write(t)
	for name, more := range map[string][]byte{
		"a byte": {1}, "a zero": {0}, "a block of zeros": make([]byte, block), "another archive": whole,
	} {
		if _, _, err := read(slices.Concat(whole, more)); err == nil ||
			err.Error() != "it is damaged: something follows its end" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A reader that fails there hasn't shown that nothing follows.
	broken := errors.New("interrupted")
	err := Read(io.MultiReader(bytes.NewReader(whole), iotest.ErrReader(broken)),
		func(string, []byte) error { return nil },
		func(content io.Reader, _ int64, _ time.Time) error { return nil })
	if !errors.Is(err, broken) {
		t.Errorf("with a reader that fails: %v", err)
	}
}

func TestReadOther(t *testing.T) {
	archive := func(headers ...*tar.Header) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range headers {
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		return out.Bytes()
	}
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"nothing": {nil, "it is no backup: no archive"},
		"text":    {bytes.Repeat([]byte("hello"), 1000), "it is no backup: no archive"},
		"zeros":   {make([]byte, 4096), "it is no backup: no archive"},
		"no file": {archive(&tar.Header{Name: "a/", Typeflag: tar.TypeDir}),
			`it is no backup: "a/" in it is no file`},
		"another":        {archive(&tar.Header{Name: "a"}), `it is no backup: it has a file "a" of 0 bytes`},
		"a way out":      {archive(&tar.Header{Name: "pki/../../x"}), `it is no backup: it has a file "pki/../../x"`},
		"an unknown key": {archive(&tar.Header{Name: "pki/x.key"}), `it is no backup: it has a file "pki/x.key"`},
		"a link": {archive(&tar.Header{Name: "pki/ca.key", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}),
			`it is no backup: "pki/ca.key" in it is no file`},
		"twice": {archive(&tar.Header{Name: "pki/ca.key"}, &tar.Header{Name: "pki/ca.key"}),
			"it is damaged: it has pki/ca.key twice"},
		"holes":       {sparseArchive(), "it is no backup: \"etcd.db\" in it is no file"},
		"no snapshot": {archive(&tar.Header{Name: sums}), "it is no backup: it has no etcd.db"},
	} {
		if _, _, err := read(test.data); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

// sparseArchive has a file of an exabyte that is one hole.
func sparseArchive() []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	records := "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n" +
		"27 GNU.sparse.name=etcd.db\n40 GNU.sparse.realsize=1000000000000000\n"
	_ = w.WriteHeader(&tar.Header{Name: "x", Size: int64(len(records)), Mode: 0o600})
	_, _ = w.Write([]byte(records))
	hole := "1\n1000000000000000\n0\n"
	_ = w.WriteHeader(&tar.Header{Name: "etcd.db", Size: block})
	_, _ = w.Write(append([]byte(hole), make([]byte, block-len(hole))...))
	_ = w.Close()
	data := out.Bytes()
	// The first is to be the second's extended header: a type that the library writes for itself.
	data[156] = tar.TypeXHeader
	copy(data[148:], "        ")
	sum := 0
	for _, b := range data[:block] {
		sum += int(b)
	}
	copy(data[148:], fmt.Sprintf("%06o\x00 ", sum))
	return data
}

// The document says that tar and sha256sum can look into it.
func TestOthersRead(t *testing.T) {
	needs.Programs(t, "tar", "sha256sum")
	dir := t.TempDir()
	tar := exec.Command("tar", "-x")
	tar.Dir, tar.Stdin = dir, bytes.NewReader(write(t))
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	check := exec.Command("sha256sum", "--check", "--strict", sums)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 3 {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	if info, err := os.Stat(dir + "/pki/ca.key"); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
}

// Whatever it is given, Read ends, and takes only what it would write.
func FuzzRead(f *testing.F) {
	whole := write(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte{})
	f.Add(make([]byte, 4*block))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, _, err := read(data)
		if err != nil {
			return
		}
		var out bytes.Buffer
		w := NewWriter(&out, made)
		for name, content := range files {
			if name != Snapshot {
				err = w.Key(name, []byte(content))
			} else {
				err = w.Snapshot(int64(len(content)), func(out io.Writer) error {
					_, err := io.WriteString(out, content)
					return err
				})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if again, _, err := read(out.Bytes()); err != nil || !maps.Equal(again, files) {
			t.Errorf("read again: %v, %v", again, err)
		}
	})
}
