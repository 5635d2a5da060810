// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folders are folders from which files may be read, with everything below them. A link in one of
// them may lead anywhere in that folder, and not out of it. Nil Folders allow all files.
type Folders []string

// ErrOutside is the error of a file that is in none of the folders.
var ErrOutside = errors.New("outside of the folders that may be read")

// Stat describes a file.
func (f Folders) Stat(path string) (info fs.FileInfo, err error) {
	if f == nil {
		return os.Stat(path)
	}
	err = f.withRoot(path, func(root *os.Root, name string) (err error) {
		info, err = root.Stat(name)
		return err
	})
	return info, err
}

// Open opens a file or a folder.
func (f Folders) Open(path string) (file *os.File, err error) {
	if f == nil {
		return os.Open(path)
	}
	err = f.withRoot(path, func(root *os.Root, name string) (err error) {
		file, err = root.Open(name)
		return err
	})
	return file, err
}

// withRoot calls do with the first of the folders that has a file, and the file's name in it.
func (f Folders) withRoot(path string, do func(root *os.Root, name string) error) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	outside := fmt.Errorf("it is %w: %s", ErrOutside, strings.Join(f, ", "))
	for _, folder := range f {
		folder, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, absolute)
		if err != nil || !filepath.IsLocal(name) {
			continue
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return err
		}
		err = do(root, name)
		root.Close()
		if of := (*fs.PathError)(nil); errors.As(err, &of) {
			if !escapes(of.Err) {
				return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
			}
			outside = fmt.Errorf("it leads by a link to what is %w: %s", ErrOutside, strings.Join(f, ", "))
			continue
		}
		return err
	}
	return &fs.PathError{Op: "open", Path: path, Err: outside}
}

// escapes reports whether an error is that of os.Root for a link that leads out of it. The package
// os doesn't export it.
func escapes(err error) bool { return err.Error() == "path escapes from parent" }
