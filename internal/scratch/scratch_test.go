// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"os"
	"path/filepath"
	"testing"

	"gatehouse.dev/test/needs"
)

func TestFastest(t *testing.T) {
	for name, test := range map[string]struct {
		memory, temporary uint64
		want              string
	}{
		"a machine":                            {24 << 30, 100 << 30, "memory"},
		"just enough":                          {enough, 100 << 30, "memory"},
		"a container's 64 MB":                  {64 << 20, 100 << 30, "temporary"},
		"a container without /tmp":             {64 << 20, 0, "memory"},
		"a container with little room in /tmp": {64 << 20, 10 << 20, "memory"},
		"a system without /dev/shm":            {0, 100 << 30, "temporary"},
		"no room at all":                       {0, 0, "temporary"},
	} {
		got := fastest("memory", "temporary", func(dir string) uint64 {
			return map[string]uint64{"memory": test.memory, "temporary": test.temporary}[dir]
		})
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// In an image without /tmp a directory is made in memory.
func TestTemporary(t *testing.T) {
	there := t.TempDir()
	t.Setenv("TMPDIR", there)
	dir, err := Temporary("scratch-")
	if err != nil || filepath.Dir(dir) != there {
		t.Errorf("got %s, %v, want a directory in %s", dir, err, there)
	}
	if free(memory) == 0 {
		needs.Missing(t, "%s, a directory in memory", memory)
	}
	t.Setenv("TMPDIR", filepath.Join(there, "missing"))
	dir, err = Temporary("scratch-")
	if err != nil || filepath.Dir(dir) != memory {
		t.Fatalf("got %s, %v, want a directory in %s", dir, err, memory)
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
}

func TestFree(t *testing.T) {
	if got := free(filepath.Join(t.TempDir(), "missing")); got != 0 {
		t.Errorf("a missing directory has room for %d bytes", got)
	}
}
