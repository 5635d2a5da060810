// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// unlock gives a file's lock up: the one of an open file, which lockFile takes, or flock's, which
// it takes if the system is too old for that.
func unlock(file *os.File) {
	whole := syscall.Flock_t{Type: syscall.F_UNLCK}
	if syscall.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &whole) != nil {
		_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	}
}
