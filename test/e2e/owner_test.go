// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A server doesn't believe what others can have put into its directory, nor does it write through
// what they have put there. It says what is theirs, and starts once it isn't any more.
func TestDirectoryOfOthers(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	serve(t, "--data-dir="+dir).stop(t)
	refuse := func(words ...string) {
		t.Helper()
		says(t, refusedBy(t, 1, startFor(t, serveCommand(t, "--data-dir="+dir))), words...)
	}
	for _, name := range []string{
		"", "lock", "admin.kubeconfig", "pki", "pki/ca.crt", "pki/ca.key", "pki/sa.key", "etcd",
		"etcd/member/snap/db",
	} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		chmod(t, path, 0o777)
		refuse(path+" can be written by others", "chmod go-w "+path)
		chmod(t, path, info.Mode().Perm())
		if os.Geteuid() == 0 { // who else can give files away
			if err := os.Chown(path, 4242, -1); err != nil {
				t.Fatal(err)
			}
			refuse(path + " belongs to user 4242")
			if err := os.Chown(path, 0, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"pki/ca.key", "pki/sa.key", "pki/apiserver.key", "admin.kubeconfig", "etcd"} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		chmod(t, path, 0o744)
		refuse(path+" can be read by others", "chmod go= "+path)
		chmod(t, path, info.Mode().Perm())
	}
	lock, precious := filepath.Join(dir, "lock"), filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	remove("lock")(t, dir)
	if err := os.Symlink(precious, lock); err != nil {
		t.Fatal(err)
	}
	refuse(lock + " is a symbolic link")
	if got := readFile(t, precious); got != "precious" {
		t.Errorf("what the lock led to has %q", got)
	}
	remove("lock")(t, dir)

	certs := t.TempDir()
	chmod(t, certs, 0o777)
	says(t, refusedBy(t, 1, startFor(t, serveCommand(t, "--data-dir="+dir, "--cert-dir="+certs))), "--cert-dir",
		fmt.Sprintf("%s can be written by others", certs))
	serve(t, "--data-dir="+dir).stop(t)
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
