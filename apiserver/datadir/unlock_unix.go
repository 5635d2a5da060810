// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package datadir

import (
	"os"
	"syscall"
)

// unlock gives a file's lock up.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
