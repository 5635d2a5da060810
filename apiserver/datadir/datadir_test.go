// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A directory is free once it is released, also while a process is being started: until that runs
// its program it has a copy of every open file.
func TestReleaseWhileOthersStart(t *testing.T) {
	dir := t.TempDir()
	first, err := Acquire(dir)
	must(t, err)
	child, err := syscall.Dup(int(first.file.Fd()))
	must(t, err)
	defer syscall.Close(child)
	first.Release()
	again, err := Acquire(dir)
	must(t, err)
	again.Release()
}

// Everything that the server relies on is its user's alone, and what isn't is named.
func TestCheck(t *testing.T) {
	me := os.Geteuid()
	if me == 0 {
		me = 1 // root's files are everybody's to trust; these are made for somebody
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string // with DIR for the directory; nothing where all is well
	}{
		"as it is made":            {func(*testing.T, string) {}, ""},
		"nothing there":            {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, ""},
		"readable by others":       {chmod(".", 0o755), ""},
		"writable by all":          {chmod(".", 0o777), "DIR can be written by others (mode 0777)"},
		"writable by a group":      {chmod("pki", 0o770), "DIR/pki can be written by others (mode 0770)"},
		"a key writable by others": {chmod("pki/ca.key", 0o602), "DIR/pki/ca.key can be written by others (mode 0602)"},
		"a key readable by all":    {chmod("pki/ca.key", 0o604), "DIR/pki/ca.key can be read by others (mode 0604)"},
		"a key that all may read":  {chmod("pki/ca.key", 0o644), "DIR/pki/ca.key can be read by others (mode 0644)"},
		"a certificate":            {chmod("pki/ca.crt", 0o644), ""},
		"a kubeconfig": {chmod("admin.kubeconfig", 0o644),
			"DIR/admin.kubeconfig can be read by others (mode 0644)"},
		"etcd's directory": {chmod("etcd", 0o711), "DIR/etcd can be read by others (mode 0711)"},
		"a file of etcd's": {chmod("etcd/1.snap", 0o644), ""},
		"a link to a key readable by others": {func(t *testing.T, dir string) {
			elsewhere := filepath.Join(t.TempDir(), "secret")
			must(t, os.WriteFile(elsewhere, nil, 0o644))
			must(t, os.Symlink(elsewhere, filepath.Join(dir, "pki", "sa.key")))
		}, "DIR/pki/sa.key can be read by others (mode 0644)"},
		"somebody else's":        {chown("."), "DIR belongs to user 4242"},
		"a key of somebody else": {chown("pki/ca.key"), "DIR/pki/ca.key belongs to user 4242"},
		"a link to what is writable by others": {func(t *testing.T, dir string) {
			elsewhere := t.TempDir()
			must(t, os.Chmod(elsewhere, 0o777))
			must(t, os.Symlink(elsewhere, filepath.Join(dir, "pki", "more")))
		}, "DIR/pki/more can be written by others"},
		"below a link": {func(t *testing.T, dir string) {
			elsewhere := t.TempDir()
			must(t, os.WriteFile(filepath.Join(elsewhere, "key"), nil, 0o600))
			must(t, os.Chmod(filepath.Join(elsewhere, "key"), 0o666))
			must(t, os.Symlink(elsewhere, filepath.Join(dir, "pki", "more")))
		}, "DIR/pki/more/key can be written by others"},
		"a link in circles": {func(t *testing.T, dir string) {
			must(t, os.Symlink(dir, filepath.Join(dir, "pki", "back")))
		}, ""},
		"a link to nothing": {func(t *testing.T, dir string) {
			must(t, os.Symlink("nowhere", filepath.Join(dir, "pki", "gone")))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.MkdirAll(filepath.Join(dir, "pki"), 0o700))
			must(t, os.Mkdir(filepath.Join(dir, "etcd"), 0o700))
			for _, name := range []string{"pki/ca.key", "pki/ca.crt", "admin.kubeconfig", "etcd/1.snap"} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600))
			}
			test.change(t, dir)
			want := strings.ReplaceAll(test.want, "DIR", dir)
			user := me
			if strings.Contains(want, "belongs to") {
				// Where the tests' user can't give files away, it is the server that is somebody
				// else's.
				user = os.Geteuid()
				if os.Geteuid() != 0 {
					user = 4242
					want, _, _ = strings.Cut(want, " belongs to")
					if name != "somebody else's" {
						want = dir // its files are as foreign to that server
					}
				}
			}
			err := check(dir, user)
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// The lock names its process, is one's at a time, and is opened as what it is.
// A link in the lock's place is not followed, and a file that others may write is not locked.
func TestAcquireWhatIsNoLock(t *testing.T) {
	dir := t.TempDir()
	for name, plant := range map[string]func(lock string){
		"a link":           func(lock string) { must(t, os.Symlink(filepath.Join(dir, "precious"), lock)) },
		"a link to a link": func(lock string) { must(t, os.Symlink("lock", lock)) },
		"a directory":      func(lock string) { must(t, os.Mkdir(lock, 0o700)) },
	} {
		must(t, os.WriteFile(filepath.Join(dir, "precious"), []byte("precious"), 0o600))
		must(t, os.RemoveAll(filepath.Join(dir, "lock")))
		plant(filepath.Join(dir, "lock"))
		if _, err := Acquire(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "lock")) {
			t.Errorf("with %s in its place: %v", name, err)
		}
		if got := read(t, dir, "precious"); got != "precious" {
			t.Errorf("with %s in its place the other file has %q", name, got)
		}
	}

	must(t, os.Chmod(dir, 0o777))
	must(t, os.RemoveAll(filepath.Join(dir, "lock")))
	if _, err := Acquire(dir); err == nil || !strings.HasPrefix(err.Error(), dir+" can be written by others") {
		t.Errorf("a directory that all may write: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "lock")); err == nil {
		t.Error("a lock has been left in a directory that all may write")
	}
}

func chmod(name string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, name), mode)) }
}

// A group may read a key of root's, for a server that runs as another user, and no key of the
// server's own.
func TestKeyForGroup(t *testing.T) {
	key := filepath.Join(t.TempDir(), "ca.key")
	must(t, os.WriteFile(key, nil, 0o600))
	must(t, os.Chmod(key, 0o640))
	err := check(key, os.Geteuid())
	if want := key + " can be read by others (mode 0640)"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if os.Geteuid() == 0 {
		must(t, check(key, 1))
	}
}

// All that others may read is said at once.
func TestCheckSaysAll(t *testing.T) {
	dir := t.TempDir()
	lock, err := Acquire(dir)
	must(t, err)
	defer lock.Release()
	must(t, os.Mkdir(filepath.Join(dir, PKI), 0o700))
	for _, name := range []string{"pki/ca.key", "pki/sa.key", "pki/ca.crt", AdminKubeconfig} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		must(t, os.Chmod(filepath.Join(dir, name), 0o644))
	}
	err = lock.Check(PKI, AdminKubeconfig)
	if err == nil || strings.Count(err.Error(), " can be read by others (mode 0644)") != 3 {
		t.Errorf("got %v", err)
	}
}

// check is what a server that runs as user says of a path.
func check(path string, user int) error {
	c := checker{user: user, secrets: true, seen: map[string]bool{}}
	return errors.Join(c.all(path), errors.Join(c.readable...))
}

// chown gives a file to somebody else, where the tests may.
func chown(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if os.Geteuid() == 0 {
			must(t, os.Chown(filepath.Join(dir, name), 4242, -1))
		}
	}
}
