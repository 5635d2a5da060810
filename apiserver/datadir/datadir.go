// Package datadir keeps a server's directory to its owner and to one process at a time.
//
// Whoever can write the directory decides whom the server trusts: an authority's key put there
// signs certificates of administrators. So it, and everything in it that the server relies on, must
// belong to the user who runs the server, or to root, and nobody else may write it, not even a
// group. A symbolic link counts as what it leads to, and whose it is counts, too. What others may
// do above the directory is not looked at. On systems without such owners and modes nothing is
// checked.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What is in a server's directory, besides the lock.
const (
	// PKI has the server's own authority, its keys and certificates; Etcd is its own etcd's;
	// AdminKubeconfig is the file with which kubectl is the administrator.
	PKI, Etcd, AdminKubeconfig = "pki", "etcd", "admin.kubeconfig"
)

// ErrInUse is what Acquire says of a directory that another process has.
var ErrInUse = errors.New("in use")

// errLocked is lockFile's error where another process has the file.
var errLocked = errors.New("the file is locked")

// A Lock is a directory that no other process uses.
type Lock struct {
	dir  string
	file *os.File
}

// Acquire makes the calling process the only user of dir, which is created where it doesn't exist.
// Nothing in the directory is changed where it is another's, or in use.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s can't be created: %w", dir, err)
	}
	if err := checkOne(dir, os.Geteuid()); err != nil {
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

// Check wants each of names in the directory, with everything below it, to be the owner's alone.
// What isn't there is nobody's.
func (l *Lock) Check(names ...string) error {
	for _, name := range names {
		if err := Check(filepath.Join(l.dir, name)); err != nil {
			return err
		}
	}
	return nil
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

// Check wants path, and everything below it, to be the owner's alone.
func Check(path string) error {
	return checkAll(path, os.Geteuid(), map[string]bool{})
}

// checkAll is Check for a server that runs as user. What seen has is checked already: links may
// lead in circles.
func checkAll(path string, user int, seen map[string]bool) error {
	if err := checkOne(path, user); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) || seen[real] {
		return nil
	} else if err != nil {
		return err
	}
	seen[real] = true
	entries, err := os.ReadDir(real)
	if info, statErr := os.Stat(real); statErr == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := checkAll(filepath.Join(path, entry.Name()), user, seen); err != nil {
			return err
		}
	}
	return nil
}

// checkOne looks at a file or a directory and, where that is a symbolic link, at what it leads to.
func checkOne(path string, user int) error {
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
		if owner != user && owner != 0 {
			return fmt.Errorf("%s belongs to user %d, who could put there whom the server trusts: it must belong to "+
				"user %d, who runs the server", path, owner, user)
		}
		// A link's own mode says nothing, and a socket is made anew.
		if info.Mode()&(fs.ModeSymlink|fs.ModeSocket) == 0 && info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s can be written by others (mode %04o), who could put there whom the server trusts: "+
				"chmod go-w %s", path, info.Mode().Perm(), path)
		}
	}
	return nil
}
