// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// On every system one process has a directory, and others learn which.
func TestAcquire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := Acquire(dir)
	must(t, err)
	if got := read(t, dir, "lock"); got != fmt.Sprintln(os.Getpid()) {
		t.Errorf("the lock says %q", got)
	}
	want := fmt.Sprintf("data directory %s is in use by process %d: stop it, or choose another --data-dir", dir,
		os.Getpid())
	if _, err := Acquire(dir); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if got := read(t, dir, "lock"); got != fmt.Sprintln(os.Getpid()) {
		t.Errorf("after another has tried the lock says %q", got)
	}
	first.Release()
	again, err := Acquire(dir)
	must(t, err)
	again.Release()
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return string(content)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
