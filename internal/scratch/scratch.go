// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scratch makes directories for files that end with the process.
package scratch

import (
	"os"
	"sync"
)

const (
	// memory is the directory whose files are in memory, where a system has it.
	memory = "/dev/shm"
	// enough is the free space in bytes with which memory is preferred. Container runtimes give it 64 MB.
	enough = 1 << 30
)

// Fast makes a new directory, in memory if there is enough room, or at least as much as in the directory for
// temporary files. The caller removes it.
func Fast(pattern string) (string, error) {
	return remember(os.MkdirTemp(fastest(memory, os.TempDir(), free), pattern))
}

// fastest returns the directory in memory, or temporary, by the room that they have.
func fastest(memory, temporary string, free func(dir string) uint64) string {
	if room := free(memory); room >= enough || room > 0 && room >= free(temporary) {
		return memory
	}
	return temporary
}

// Temporary makes a new directory in the directory for temporary files, or in memory if that fails, as in
// images that have no /tmp. The caller removes it.
func Temporary(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil && free(memory) > 0 {
		dir, err = os.MkdirTemp(memory, pattern)
	}
	return remember(dir, err)
}

// made are the directories that were made.
var made struct {
	sync.Mutex
	dirs []string
}

func remember(dir string, err error) (string, error) {
	if err == nil {
		made.Lock()
		defer made.Unlock()
		made.dirs = append(made.dirs, dir)
	}
	return dir, err
}

// RemoveAll removes all directories that were made. A process calls it when it ends at once, without waiting for
// those who use them.
func RemoveAll() {
	made.Lock()
	defer made.Unlock()
	for _, dir := range made.dirs {
		os.RemoveAll(dir)
	}
}
