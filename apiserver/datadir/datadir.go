// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datadir keeps a server's directory to its owner and to one process at a time.
//
// A user who can write the directory decides whom the server trusts: an authority's key there signs
// certificates of administrators. So the directory, and everything in it that the server relies on,
// must belong to the user who runs the server, or to root, and no other user or group may write it.
// For a symbolic link, both the link's owner and its target count. Permissions above the directory
// are not checked. On systems without such owners and modes nothing is checked.
//
// Private keys, kubeconfigs and etcd's directory are secret too: others may not read them. If they
// belong to root and another user runs the server, that user's group may.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files in a server's directory, besides the lock.
const (
	// PKI has the server's own authority, its keys and certificates; Etcd is its own etcd's;
	// AdminKubeconfig is the file with which kubectl is the administrator.
	PKI, Etcd, AdminKubeconfig = "pki", "etcd", "admin.kubeconfig"
)

// ErrInUse is returned by Acquire if another process has the directory.
var ErrInUse = errors.New("in use")

// errLocked is lockFile's error if another process has the file.
var errLocked = errors.New("the file is locked")

// A Lock is a directory that no other process uses.
type Lock struct {
	dir  string
	file *os.File
}

// Acquire makes the calling process the only user of dir, which is created if it doesn't exist. Nothing
// in the directory is changed if it is another's, or in use.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s can't be created: %w", dir, err)
	}
	own := checker{user: os.Geteuid()}
	if err := own.one(dir); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "lock")
	file, err := lockFile(name)
	switch {
	case errors.Is(err, errLocked):
		return nil, fmt.Errorf("data directory %s is %w by process %s: stop it, or choose another --data-dir", dir,
			ErrInUse, holder(name))
	case err != nil && isLink(name):
		return nil, fmt.Errorf("data directory %s can't be locked: %s is a symbolic link: remove it", dir, name)
	case err != nil:
		return nil, fmt.Errorf("data directory %s can't be locked: %w", dir, err)
	}
	l := &Lock{dir, file}
	if err := errors.Join(l.Check("lock"), l.sign()); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// sign writes down which process has the lock.
func (l *Lock) sign() error {
	if info, err := l.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("data directory %s can't be locked: %s is no file: remove it", l.dir,
			l.file.Name()))
	}
	err := l.file.Truncate(0)
	if err == nil {
		_, err = l.file.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		return fmt.Errorf("data directory %s can't be written: %w", l.dir, err)
	}
	return nil
}

// Check returns an error unless each of names in the directory, with everything below it, can be
// written by its owner only, and secret files can be read by their owner only. It ignores names
// that don't exist.
func (l *Lock) Check(names ...string) error {
	c := checker{user: os.Geteuid(), secrets: true, seen: map[string]bool{}}
	for _, name := range names {
		if err := c.all(filepath.Join(l.dir, name)); err != nil {
			return err
		}
	}
	return errors.Join(c.readable...)
}

// Release ends the lock. The file stays, since another process may be waiting to lock it.
func (l *Lock) Release() {
	// To close the file is not enough: until it runs its program, a process that is just being
	// started has a copy of every open file, and with it the lock.
	unlock(l.file)
	l.file.Close()
}

// holder is the process that a lock file names.
func holder(name string) string {
	file, err := os.OpenFile(name, os.O_RDONLY|asItIs, 0)
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	process, _ := io.ReadAll(io.LimitReader(file, 32))
	return strings.TrimSpace(string(process))
}

func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().Type() == fs.ModeSymlink
}

// Check wants path, and everything below it, to be the owner's alone to write.
func Check(path string) error {
	c := checker{user: os.Geteuid(), seen: map[string]bool{}}
	return c.all(path)
}

// CheckSecret wants a file to be the calling user's alone to read. One that isn't there is.
func CheckSecret(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	owner, known := ownerOf(info)
	if readers := readersOf(info, owner == os.Geteuid()); known && info.Mode().Perm()&readers != 0 {
		return fmt.Errorf("%s can be read by others (mode %04o): chmod go= %s", path, info.Mode().Perm(), path)
	}
	return nil
}

// A checker looks at files for a server that runs as user.
type checker struct {
	user     int
	secrets  bool            // whether to check which users may read what is secret
	seen     map[string]bool // what is checked already: links may lead in circles
	readable []error         // which secrets others may read: all of them, to be mended at once
}

// all looks at a path and everything below it.
func (c *checker) all(path string) error {
	if err := c.one(path); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) || c.seen[real] {
		return nil
	} else if err != nil {
		return err
	}
	c.seen[real] = true
	entries, err := os.ReadDir(real)
	if info, statErr := os.Stat(real); statErr == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := c.all(filepath.Join(path, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// one checks a file or a directory, and what it leads to if it is a symbolic link.
func (c *checker) one(path string) error {
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		owner, known := ownerOf(info)
		if !known {
			return nil
		}
		if owner != c.user && owner != 0 {
			return fmt.Errorf("%s belongs to user %d, who could put there whom the server trusts: it must belong to "+
				"user %d, who runs the server", path, owner, c.user)
		}
		// A link's own mode says nothing, and a socket is made anew.
		if info.Mode()&(fs.ModeSymlink|fs.ModeSocket) != 0 {
			continue
		}
		mode := info.Mode().Perm()
		if mode&0o022 != 0 {
			return fmt.Errorf("%s can be written by others (mode %04o), who could put there whom the server trusts: "+
				"chmod go-w %s", path, mode, path)
		}
		if readers := readersOf(info, owner == c.user); c.secrets && isSecret(path) && mode&readers != 0 {
			c.readable = append(c.readable, fmt.Errorf("%s can be read by others (mode %04o), who could pass for "+
				"the server or its administrator: chmod go= %s, and make new keys if somebody may have read it",
				path, mode, path))
			return nil
		}
	}
	return nil
}

// readersOf is the part of a mode by which others can read a file, or what is in a directory. A
// file that isn't the server's own is read through its group.
func readersOf(info fs.FileInfo, own bool) fs.FileMode {
	readers := fs.FileMode(0o044)
	if info.IsDir() {
		readers = 0o055
	}
	if !own {
		readers &= 0o007
	}
	return readers
}

// isSecret reports, by the name, whether others may not read a file or a directory. Etcd's
// directory has files that etcd makes readable, but others can't enter the directory.
func isSecret(path string) bool {
	return slices.Contains([]string{".key", ".kubeconfig"}, filepath.Ext(path)) || filepath.Base(path) == Etcd
}
