// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wholefile writes files as a whole or not at all.
package wholefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the file name with mode 0600, with the content that write writes: all of it or nothing,
// also after a crash. If write fails, an existing file stays as it is. Directories and devices are not
// replaced.
func Write(name string, write func(io.Writer) error) error { return put(name, write, os.Rename) }

// Create is Write for a file that must not exist. If it exists, the error is fs.ErrExist, and write is
// not called.
func Create(name string, write func(io.Writer) error) error {
	if err := checkMissing(name); err != nil {
		return err
	}
	return put(name, write, func(temp, name string) error {
		// A rename would replace a file that was created meanwhile, and a link doesn't.
		err := os.Link(temp, name)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		// Not every file system has links.
		if err := checkMissing(name); err != nil {
			return err
		}
		return os.Rename(temp, name)
	})
}

// checkMissing returns fs.ErrExist if a file of the name exists.
func checkMissing(name string) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
		}
		return err
	}
	return nil
}

// put writes a temporary file, and calls place to give it its name.
func put(name string, write func(io.Writer) error, place func(temp, name string) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return &fs.PathError{Op: "create", Path: name, Err: errors.New("is no regular file")}
	}
	dir := filepath.Dir(name)
	temp, err := os.CreateTemp(dir, "."+filepath.Base(name)+"-") // CreateTemp's mode is 0600
	if err != nil {
		return Rename(err, "", name)
	}
	defer os.Remove(temp.Name())
	err = write(temp)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = place(temp.Name(), name)
	}
	if err != nil {
		return Rename(err, temp.Name(), name)
	}
	return syncDir(dir)
}

// Rename turns an error about the temporary file or directory temp into one about name. An empty temp
// means that it could not be created.
func Rename(err error, temp, name string) error {
	var one *fs.PathError
	var two *os.LinkError
	switch {
	case err == nil:
		return nil
	case temp == "" && errors.As(err, &one):
		return &fs.PathError{Op: "create", Path: name, Err: one.Err}
	case errors.As(err, &two) && strings.HasPrefix(two.Old, temp):
		return &fs.PathError{Op: "create", Path: name, Err: two.Err}
	}
	return renamedError{err, temp, name}
}

// renamedError is an error whose text has name in place of temp.
type renamedError struct {
	error
	temp, name string
}

// Error implements error.
func (r renamedError) Error() string { return strings.ReplaceAll(r.error.Error(), r.temp, r.name) }

// Unwrap returns the original error.
func (r renamedError) Unwrap() error { return r.error }

// syncDir makes the files of a directory, and the order in which they were created, survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
