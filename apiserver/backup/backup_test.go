// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"gatehouse.dev/apiserver/backup/archive"
	"gatehouse.dev/apiserver/datadir"
	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/internal/wholefile"
	"gatehouse.dev/test/needs"
)

// A directory that has an etcd and keys, and none of an API server's else.
func newData(t *testing.T, dir string) {
	t.Helper()
	_, err := pki.LoadAuthority(filepath.Join(dir, datadir.PKI))
	must(t, err)
	_, err = pki.TokenKey(filepath.Join(dir, datadir.PKI))
	must(t, err)
}

// start runs the etcd in a data directory as a server does: nobody else has the directory.
func start(t *testing.T, dir string) (*clientv3.Client, func()) {
	t.Helper()
	needs.Server(t)
	lock, err := datadir.Acquire(dir)
	must(t, err)
	server, err := etcd.Start(t.Context(), filepath.Join(dir, datadir.Etcd))
	must(t, err)
	stop := func() { server.Stop(); lock.Release() }
	t.Cleanup(func() { server.Stop() })
	return server.Client().Client, stop
}

func quiet(int64, int64) {}

func saved(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, Save(t.Context(), dir, &out, quiet))
	return out.Bytes()
}

// Acknowledged writes are in the backup of a server that runs, wherever its socket is, and of one that
// doesn't. They are in the restored server, with later revisions.
func TestSaveAndRestore(t *testing.T) {
	short, err := os.MkdirTemp("", "gatehouse-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(short) })
	for name, parent := range map[string]string{
		"socket in the directory": short,
		"socket elsewhere":        filepath.Join(t.TempDir(), strings.Repeat("long", 30)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(parent, "data")
			newData(t, dir)
			client, stop := start(t, dir)
			for i := range 100 {
				_, err := client.Put(t.Context(), fmt.Sprintf("/key/%d", i), "before")
				must(t, err)
			}
			running := saved(t, dir)
			_, err := client.Put(t.Context(), "/key/0", "after")
			must(t, err)
			last, err := client.Delete(t.Context(), "/key/1")
			must(t, err)
			stop()
			stopped := saved(t, dir)

			for from, test := range map[string]struct {
				backup []byte
				keys   int64
				first  string
			}{"running": {running, 100, "before"}, "stopped": {stopped, 99, "after"}} {
				into := filepath.Join(parent, from)
				must(t, Restore(bytes.NewReader(test.backup), into, quiet))
				for _, key := range archive.Keys {
					want, err := os.ReadFile(filepath.Join(dir, datadir.PKI, key))
					must(t, err)
					got, err := os.ReadFile(filepath.Join(into, datadir.PKI, key))
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %s is another (%v)", from, key, err)
					}
				}
				client, stop := start(t, into)
				got, err := client.Get(t.Context(), "/key/", clientv3.WithPrefix(), clientv3.WithCountOnly())
				must(t, err)
				if got.Count != test.keys {
					t.Errorf("%s: %d keys are restored, want %d", from, got.Count, test.keys)
				}
				first, err := client.Get(t.Context(), "/key/0")
				must(t, err)
				if len(first.Kvs) != 1 || string(first.Kvs[0].Value) != test.first {
					t.Errorf("%s: the first key is %v, want %s", from, first.Kvs, test.first)
				}
				if first.Header.Revision <= max(last.Header.Revision, fewestRevisions) {
					t.Errorf("%s: it goes on at revision %d", from, first.Header.Revision)
				}
				// A client that saw writes after the backup isn't told that there is nothing new.
				watched := <-client.Watch(t.Context(), "/key/", clientv3.WithPrefix(),
					clientv3.WithRev(last.Header.Revision+1))
				if !errors.Is(watched.Err(), rpctypes.ErrCompacted) {
					t.Errorf("%s: a watch from revision %d: %v", from, last.Header.Revision, watched.Err())
				}
				_, err = client.Put(t.Context(), "/key/0", "restored")
				must(t, err)
				stop()
			}
		})
	}
}

// A server that was restored twice from the same backup has no revision twice.
func TestRevisionsSince(t *testing.T) {
	now := time.Now()
	if got := revisionsSince(now.Add(time.Hour)); got != fewestRevisions {
		t.Errorf("by a clock that is behind it is %d", got)
	}
	day, week := revisionsSince(now.Add(-24*time.Hour)), revisionsSince(now.Add(-7*24*time.Hour))
	if day < 86_400_000_000 || week-day < 6*86_400_000_000 || week > 8*86_400_000_000 {
		t.Errorf("after a day it is %d, after a week %d", day, week)
	}
}

func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	newData(t, data)
	client, stop := start(t, data)
	_, err := client.Put(t.Context(), "/key", "value")
	must(t, err)
	stop()
	whole := saved(t, data)
	garbled := bytes.Clone(whole)
	garbled[len(garbled)/2] ^= 1
	another := filepath.Join(t.TempDir(), "another")
	newData(t, another)
	// withKeys is a backup with keys from files, by the names that they have in it.
	withKeys := func(files map[string]string) []byte {
		keys := map[string][]byte{}
		for name, file := range files {
			content, err := os.ReadFile(file)
			must(t, err)
			keys[name] = content
		}
		return forged(t, nil, keys)
	}
	ours := func(name string) string { return filepath.Join(data, datadir.PKI, name) }
	theirs := func(name string) string { return filepath.Join(another, datadir.PKI, name) }

	for name, test := range map[string]struct {
		backup []byte
		dir    string
		want   string
	}{
		"a directory in use": {whole, "data",
			"data directory DIR/data is not empty: a backup is restored into a new one"},
		"a file": {whole, "data/lock", "data directory DIR/data/lock can't be made: "},
		"half of it": {whole[:len(whole)/2], "new",
			"the backup can't be restored: it is cut: its end is missing"},
		"a changed byte": {garbled, "new", "the backup can't be restored: it is damaged: "},
		"something after it": {append(bytes.Clone(whole), 0), "new",
			"the backup can't be restored: it is damaged: something follows its end"},
		"another backup after it": {append(bytes.Clone(whole), whole...), "new",
			"the backup can't be restored: it is damaged: something follows its end"},
		"another's key": {withKeys(map[string]string{"ca.crt": ours("ca.crt"), "ca.key": theirs("ca.key")}), "new",
			"the backup can't be restored: ca.crt with ca.key: that is not the key of this certificate"},
		"no key": {withKeys(map[string]string{"ca.crt": ours("ca.crt")}), "new",
			"the backup can't be restored: ca.crt is there without ca.key"},
		"no authority's key": {withKeys(map[string]string{"ca.key": ours("ca.crt")}), "new",
			"the backup can't be restored: ca.key: "},
		"no key of tokens": {withKeys(map[string]string{"sa.key": ours("ca.crt")}), "new",
			"the backup can't be restored: sa.key: "},
		"an empty key of tokens": {forged(t, nil, map[string][]byte{"sa.key": {}}), "new",
			"the backup can't be restored: sa.key: "},
		"something else": {bytes.Repeat([]byte("x"), 4096), "new",
			"the backup can't be restored: it is no backup: "},
		"another database": {forged(t, append([]byte(strings.Repeat("garbage!", 1024)),
			sum(strings.Repeat("garbage!", 1024))...), nil), "new", "etcd's snapshot can't be restored: "},
		"no hash of etcd's": {forged(t, []byte(strings.Repeat("garbage!", 1024)), nil), "new",
			"etcd's snapshot can't be restored: snapshot missing hash"},
		"another hash of etcd's": {forged(t, append([]byte(strings.Repeat("garbage!", 1024)), sum("")...), nil), "new",
			"etcd's snapshot can't be restored: expected sha256 "},
	} {
		err := Restore(bytes.NewReader(test.backup), filepath.Join(dir, test.dir), quiet)
		if want := strings.ReplaceAll(test.want, "DIR", dir); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got  %v\nwant %s", name, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("they have left %v", entries)
	}
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	must(t, Restore(bytes.NewReader(whole), filepath.Join(dir, "empty"), quiet))
	if info, err := os.Stat(filepath.Join(dir, "empty")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the restored directory has mode %v (%v)", info.Mode(), err)
	}
}

// A symbolic link stays what it is, and leads to what is restored.
func TestRestoreThroughLink(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	newData(t, data)
	_, stop := start(t, data)
	stop()
	backup := saved(t, data)
	for name, prepare := range map[string]func(dir string) (leads string){
		"to an empty directory": func(dir string) string {
			must(t, os.Mkdir(filepath.Join(dir, "disk"), 0o755))
			return filepath.Join(dir, "disk")
		},
		"to nothing": func(dir string) string { return "disk/new" },
		"to a link": func(dir string) string {
			must(t, os.Symlink("disk", filepath.Join(dir, "other")))
			return "other"
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			link, leads := filepath.Join(dir, "link"), prepare(dir)
			must(t, os.Symlink(leads, link))
			must(t, Restore(bytes.NewReader(backup), link, quiet))
			if got, err := os.Readlink(link); err != nil || got != leads {
				t.Errorf("the link leads to %q, %v, and not to %q", got, err, leads)
			}
			if _, err := os.Stat(filepath.Join(dir, "disk")); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
				t.Errorf("it left %v (%v)", left, err)
			}
			_, stop := start(t, link)
			stop()
		})
	}
	circle := filepath.Join(t.TempDir(), "circle")
	must(t, os.Symlink("circle", circle))
	if err := Restore(bytes.NewReader(backup), circle, quiet); err == nil {
		t.Error("restores into a link to itself")
	}
}

// A server that couldn't be restored isn't saved.
func TestSaveChecksKeys(t *testing.T) {
	dir := t.TempDir()
	newData(t, dir)
	_, stop := start(t, dir)
	stop()
	file := filepath.Join(dir, datadir.PKI, "sa.key")
	must(t, os.WriteFile(file, []byte("no key"), 0o600))
	var out bytes.Buffer
	if err := Save(t.Context(), dir, &out, quiet); err == nil || !strings.Contains(err.Error(), "sa.key: ") ||
		out.Len() > 0 {
		t.Errorf("got %v, %d bytes", err, out.Len())
	}
}

// Errors name the directory, and not a temporary one.
func TestRestoreErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	temp := dir + "-temp-123"
	err := wholefile.Rename(restore(bytes.NewReader(forged(t, nil, nil)), dir, temp, quiet), temp, dir)
	if err == nil || strings.Contains(err.Error(), temp) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

// forged is a backup whose sums are right, and whose snapshot and keys may be wrong.
func forged(t *testing.T, snapshot []byte, keys map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := archive.NewWriter(&out, time.Now())
	for name, content := range keys {
		must(t, w.Key(name, content))
	}
	must(t, w.Snapshot(int64(len(snapshot)), func(out io.Writer) error {
		_, err := out.Write(snapshot)
		return err
	}))
	must(t, w.Close())
	return out.Bytes()
}

func sum(content string) []byte {
	s := sha256.Sum256([]byte(content))
	return s[:]
}

func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	if err := Save(t.Context(), filepath.Join(dir, "none"), io.Discard, quiet); err == nil ||
		!strings.Contains(err.Error(), "has no etcd of its own") {
		t.Errorf("without a directory: %v", err)
	}
	newData(t, dir)
	_, stop := start(t, dir)
	broken := errors.New("disk full")
	if err := Save(t.Context(), dir, failing{broken}, quiet); !errors.Is(err, broken) {
		t.Errorf("a file that can't be written: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Save(ended, dir, io.Discard, quiet); err == nil {
		t.Error("one that was interrupted is taken for a backup")
	}
	stop()
	// A process that has the directory and no etcd, as one that is just starting.
	lock, err := datadir.Acquire(dir)
	must(t, err)
	defer lock.Release()
	if err := Save(t.Context(), dir, io.Discard, quiet); err == nil || !errors.Is(err, datadir.ErrInUse) {
		t.Errorf("of a directory whose server has no etcd: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
