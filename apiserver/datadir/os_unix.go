// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// asItIs opens a file itself, not what a symbolic link leads to, and doesn't wait for who is at a
// pipe's other end.
const asItIs = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ownerOf is the user to whom a file belongs.
func ownerOf(info fs.FileInfo) (user int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// lockFile opens a file, which is made if there is none, for as long as no other process has it.
func lockFile(name string) (*os.File, error) {
	file, err := fileutil.TryLockFile(name, os.O_CREATE|os.O_RDWR|asItIs, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	return file.File, nil
}
