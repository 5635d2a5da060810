// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const asItIs = 0

// ownerOf says nothing: who may write a file is in its access control list, which the directory
// hands down.
func ownerOf(fs.FileInfo) (user int, known bool) { return 0, false }

// sharingViolation means that another process has a file open and lets no one write it: the
// system's ERROR_SHARING_VIOLATION.
const sharingViolation = syscall.Errno(32)

// lockFile opens a file, which is made if there is none, so that others may read it, to learn
// who has it, and can't write it. (etcd's library locks what is read, too, and panics if a file
// is to be read, written and made.)
func lockFile(name string) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE, syscall.FILE_SHARE_READ, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if errors.Is(err, sharingViolation) {
		return nil, errLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return os.NewFile(uintptr(handle), name), nil
}

// unlock does nothing: a process that is started has no copy of the file.
func unlock(*os.File) {}
