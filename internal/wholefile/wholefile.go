// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wholefile writes files as a whole or not at all.
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Write writes the file name with mode 0600, with the content that write writes: all of it or nothing,
// also after a crash. If write fails, an existing file stays as it is. Directories and devices are not
// replaced.
func Write(name string, write func(io.Writer) error) error {
	return put(name, 0o600, func(*os.File) error { return nil }, write, os.Rename)
}

// Create is Write for a file that must not exist. If it exists, the error is fs.ErrExist, and write is
// not called.
func Create(name string, write func(io.Writer) error) error {
	if err := checkMissing(name); err != nil {
		return err
	}
	return put(name, 0o600, func(*os.File) error { return nil }, write, func(temp, name string) error {
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

// Replace writes data to the user's file name, as os.WriteFile does, but a new file takes the place of
// the old one: all of it or nothing, also after a crash. An existing file keeps its mode and its owner, and
// links are followed. A file that can't be replaced is written in place, and the note says so: one that is
// mounted by itself, or whose directory may not be written. So are devices and pipes, without a note.
func Replace(name string, data []byte, perm fs.FileMode) (note string, err error) {
	old, err := os.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if old != nil && (!old.Mode().IsRegular() || isStream(name)) {
		return "", overwrite(name, data)
	}
	file, err := followLinks(name)
	if err != nil {
		return "", err
	}
	keep := func(temp *os.File) error {
		if old == nil {
			return nil
		}
		return errors.Join(keepOwner(temp, old), temp.Chmod(old.Mode().Perm()))
	}
	write := func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	}
	err = put(file, perm, keep, write, os.Rename)
	if old == nil || !isIrreplaceable(err) {
		return "", err
	}
	if err := overwrite(name, data); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s was written in place, because it can't be replaced: %v", name, err), nil
}

// isStream reports whether a name is one of the process's own open files, such as /dev/stdout. If that is a
// file, the process goes on writing to it, and so it can't be replaced.
func isStream(name string) bool {
	return strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/")
}

// followLinks returns the name of the file to which a symbolic link leads. The file may be missing.
func followLinks(name string) (string, error) {
	const most = 40 // as Linux
	for range most {
		target, err := os.Readlink(name)
		if err != nil {
			return name, nil // it is no link
		}
		if !filepath.IsAbs(target) {
			// Without cleaning: a directory that is a link has another parent.
			target = filepath.Dir(name) + string(filepath.Separator) + target
		}
		name = target
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: errors.New("too many links")}
}

// overwrite writes data over what an existing file has.
func overwrite(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if info, statErr := file.Stat(); err == nil && statErr == nil && info.Mode().IsRegular() {
		err = errors.Join(file.Truncate(int64(len(data))), file.Sync())
	}
	return errors.Join(err, file.Close())
}

// isIrreplaceable reports whether an error means that another file can't take the place of an existing one,
// and says nothing about writing to the existing one: it is about rights, a read-only directory, or a file
// that is mounted. A full disk is no such error.
func isIrreplaceable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EBUSY)
}

// put writes a temporary file, prepared by prepare, and calls place to give it its name.
func put(name string, perm fs.FileMode, prepare func(*os.File) error, write func(io.Writer) error,
	place func(temp, name string) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return &fs.PathError{Op: "create", Path: name, Err: errors.New("is no regular file")}
	}
	dir := filepath.Dir(name)
	temp, err := createTemp(dir, filepath.Base(name), perm)
	if err != nil {
		return Rename(err, "", name)
	}
	defer os.Remove(temp.Name())
	err = prepare(temp)
	if err == nil {
		err = write(temp)
	}
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

// createTemp creates a new file in a directory, with a mode that umask restricts.
func createTemp(dir, base string, perm fs.FileMode) (*os.File, error) {
	const most = 200 // bytes, so that the name isn't longer than file systems allow
	name := fmt.Sprintf(".%s-%d", base[:min(len(base), most)], rand.Uint64())
	return os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
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
