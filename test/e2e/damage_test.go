// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// damagedWrites is how much is in the data directory that is damaged.
const damagedWrites = 200

// A server doesn't start on a damaged data directory: it says which one, in a sentence.
func TestDamagedDataDir(t *testing.T) {
	t.Parallel()
	whole := dataDir(t)
	srv := serve(t, "--data-dir="+whole)
	for i := range damagedWrites {
		createConfigMap(t, srv.client, fmt.Sprintf("kept-%d", i))
	}
	srv.stop(t)

	logged := "etcd/member/wal/0000000000000000-0000000000000000.wal"
	db := "etcd/member/snap/db"
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		says   string
	}{
		{"an empty log", resize(logged, 0), "etcd"},
		{"half a log", resizeToHalf(logged), "etcd"},
		{"a log with garbage inside", garbage(logged, 20_000, 4096), "etcd"},
		{"a log of garbage", garbage(logged, 0, 100_000), "etcd"},
		{"no log", remove("etcd/member/wal"), "etcd"},
		{"half a database", resizeToHalf(db), "etcd"},
		{"a database of garbage", garbage(db, 0, 1<<20), "etcd"},
		{"a database with its first pages garbage", garbage(db, 0, 8192), "etcd"},
		{"a file in place of etcd's directory", replaceByFile("etcd"), "etcd"},
		{"an authority of garbage", garbage("pki/ca.crt", 0, 200), "certificate authority"},
		{"an authority without its key", remove("pki/ca.key"), "ca.key"},
		{"another authority's key", swap("pki/ca.key", "pki/apiserver.key"), "is not the key of"},
		{"a token key of garbage", garbage("pki/sa.key", 0, 200), "service-account-signing-key-file"},
		{"a kubeconfig that is a directory", replaceByDirectory("admin.kubeconfig"), "admin.kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(dataDir(t), "data")
			copyDir(t, whole, dir)
			test.damage(t, dir)
			// Keys and certificates are files that the options name; etcd's and what the server
			// writes anew are not.
			code := 2
			if test.says == "etcd" || test.says == "admin.kubeconfig" {
				code = 1
			}
			says(t, refusedBy(t, code, startFor(t, serveCommand(t, "--data-dir="+dir))), dir, test.says)
		})
	}

	// What a crash leaves is no damage: a record's first bytes at the log's end, a database that
	// has yet to be made from the log, or an authority's key that has yet to get its certificate.
	for name, damage := range map[string]func(*testing.T, string){
		"a torn last record": appendTo(logged, 200), // a record's length, and nothing of the record
		"no database":        remove(db),
		"an empty database":  resize(db, 0),
		"a key alone":        remove("pki/ca.crt"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(dataDir(t), "data")
			copyDir(t, whole, dir)
			damage(t, dir)
			srv := serve(t, "--data-dir="+dir)
			createConfigMap(t, srv.client, "new")
			list, err := srv.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Items) < damagedWrites+1 {
				t.Errorf("%d of %d objects are there", len(list.Items), damagedWrites+1)
			}
		})
	}
}

// A server that was killed before its log's first entry has no data, and must not wait for a member
// that the log doesn't name.
func TestKilledBeforeFirstEntry(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	member := filepath.Join(dir, "etcd", "member")
	if err := os.MkdirAll(filepath.Join(member, "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Create(zap.NewNop(), filepath.Join(member, "wal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	serve(t, "--data-dir="+dir)
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Remove(filepath.Join(from, "etcd", "etcd.sock")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// What it has copied others may read, and a server doesn't start on such secrets.
	if err := filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if entry.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	}); err != nil {
		t.Fatal(err)
	}
}

// dataEnd is where a file's content ends and the zeros begin for which it was made longer.
func dataEnd(t *testing.T, name string) int64 {
	t.Helper()
	return int64(len(bytes.TrimRight([]byte(readFile(t, name)), "\x00")))
}

// appendTo writes a byte where the next record would begin.
func appendTo(name string, b byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{b}, (dataEnd(t, path)+7)/8*8); err != nil {
			t.Fatal(err)
		}
	}
}

func resize(name string, size int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
}

func resizeToHalf(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		resize(name, dataEnd(t, filepath.Join(dir, name))/2)(t, dir)
	}
}

func garbage(name string, at, length int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		noise := make([]byte, length)
		_, _ = rand.Read(noise)
		if _, err := f.WriteAt(noise, at); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func replaceByFile(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		remove(name)(t, dir)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("x", 10)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func replaceByDirectory(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		remove(name)(t, dir)
		if err := os.MkdirAll(filepath.Join(dir, name, "something"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func swap(name, by string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Rename(filepath.Join(dir, by), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
