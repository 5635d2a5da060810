// Package wholefile writes files that are there as a whole or not at all.
package wholefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write makes name, with mode 0600, what write writes: all of it or nothing, also after a crash. A
// file that was there stays as it is if write fails. Directories and devices are not replaced.
func Write(name string, write func(io.Writer) error) error { return put(name, write, os.Rename) }

// Create is Write for a name that must not be there yet. If it is, the error is fs.ErrExist, and
// write is not called.
func Create(name string, write func(io.Writer) error) error {
	if err := missing(name); err != nil {
		return err
	}
	return put(name, write, func(temp, name string) error {
		// A link, since a rename would replace a file that has come meanwhile.
		err := os.Link(temp, name)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		// Not every file system has links.
		if err := missing(name); err != nil {
			return err
		}
		return os.Rename(temp, name)
	})
}

// missing returns fs.ErrExist if there is something by that name.
func missing(name string) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
		}
		return err
	}
	return nil
}

// put writes a temporary file and has place give it its name.
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

// Rename returns an error about the temporary file or directory temp as one about name, for which
// it was made. An empty temp is one that could not be made.
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
	return renamed{err, temp, name}
}

// renamed is an error whose text has name in the place of temp.
type renamed struct {
	error
	temp, name string
}

// Error implements error.
func (r renamed) Error() string { return strings.ReplaceAll(r.error.Error(), r.temp, r.name) }

// Unwrap returns the error as it was.
func (r renamed) Unwrap() error { return r.error }

// syncDir makes what files a directory has outlast a crash, and their order of coming.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
