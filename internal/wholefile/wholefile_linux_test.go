// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package wholefile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse.dev/internal/wholefile"
	"gatehouse.dev/test/program"
)

// A full disk leaves the old file, a mounted file is written in place, and a file keeps its owner.
func TestReplaceOnMounts(t *testing.T) {
	if !program.Isolated(t) {
		return
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // with what is mounted in it
	file := filepath.Join(dir, "file")
	write := func(data string) (note string, err error) {
		t.Helper()
		note, err = wholefile.Replace(file, []byte(data), 0o644)
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the directory has %v (%v)", entries, err)
		}
		return note, err
	}
	expect := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("the file has %q (%v), want %q", got, err, want)
		}
	}
	if note, err := write("one"); note != "" || err != nil {
		t.Fatalf("note %q, %v", note, err)
	}
	if note, err := write(string(bytes.Repeat([]byte("x"), 1<<20))); note != "" || !errors.Is(err, syscall.ENOSPC) ||
		err.Error() != "write "+file+": no space left on device" {
		t.Errorf("a full disk: note %q, %v", note, err)
	}
	expect("one")
	if err := os.Chown(file, 1234, 5678); err != nil {
		t.Fatal(err)
	}
	if note, err := write("two"); note != "" || err != nil {
		t.Errorf("another user's file: note %q, %v", note, err)
	}
	expect("two")
	var info unix.Stat_t
	if err := unix.Stat(file, &info); err != nil || info.Uid != 1234 || info.Gid != 5678 {
		t.Errorf("the owner is %d, %d (%v)", info.Uid, info.Gid, err)
	}
	if err := unix.Mount(file, file, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	note, err := write("3")
	if err != nil || !strings.HasPrefix(note, file+" was written in place, because it can't be replaced: ") {
		t.Errorf("a mounted file: note %q, %v", note, err)
	}
	expect("3")
}
