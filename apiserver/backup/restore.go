// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gatehouse.dev/apiserver/backup/archive"
	"gatehouse.dev/apiserver/datadir"
	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/internal/wholefile"
)

const (
	// revisionsPerSecond is more than etcd can make. A restored server's first revision is later
	// than its backup's by as many for each second since that was made: what has come of the
	// server, or of another that was restored from the same backup, has not got so far.
	revisionsPerSecond = 1_000_000
	// fewestRevisions is by how many it is later at least, whatever clocks say; etcd's own advice.
	fewestRevisions = 1_000_000_000
)

// Restore makes dir, which must not exist or be empty, the data directory of the server of which in
// is a backup. A symbolic link stays, and what it leads to becomes the directory. Where Restore
// fails, it leaves things as they were.
func Restore(in io.Reader, dir string, progress Progress) error {
	if entries, err := os.ReadDir(dir); len(entries) > 0 {
		return fmt.Errorf("data directory %s is not empty: a backup is restored into a new one", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data directory %s can't be made: %w", dir, err)
	}
	dir, err := target(dir)
	if err != nil {
		return fmt.Errorf("data directory %s can't be made: %w", dir, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("data directory %s can't be made: %w", dir, err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-restored-")
	if err != nil {
		return fmt.Errorf("data directory %s can't be made: %w", dir, wholefile.Rename(err, "", dir))
	}
	defer os.RemoveAll(temp)
	return wholefile.Rename(restore(in, dir, temp, progress), temp, dir)
}

// restore makes the directory in temp, and gives it its name.
func restore(in io.Reader, dir, temp string, progress Progress) error {
	snapshot := filepath.Join(temp, archive.Snapshot)
	keys, made, err := unpack(in, snapshot, progress)
	if err == nil {
		err = pki.CheckKeys(keys)
	}
	if err != nil {
		return fmt.Errorf("the backup can't be restored: %w", err)
	}
	restored := filepath.Join(temp, "data")
	for name, content := range keys {
		if err := pki.WriteFile(filepath.Join(restored, datadir.PKI, name), content); err != nil {
			return err
		}
	}
	if err := etcd.Restore(snapshot, filepath.Join(restored, datadir.Etcd), revisionsSince(made)); err != nil {
		return err
	}
	// It is empty; not every system lets a directory take its place.
	if err := os.Remove(dir); errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("data directory %s can't be replaced: %w: if something is mounted there, restore into a "+
			"directory in it", dir, syscall.EBUSY)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(restored, dir)
}

// target returns the absolute path of what a path leads to, through symbolic links, whether or not
// it is there.
func target(path string) (string, error) {
	for range 255 { // as Go's filepath.EvalSymlinks
		abs, err := filepath.Abs(path)
		if err != nil {
			return path, err
		}
		info, err := os.Lstat(abs)
		if errors.Is(err, os.ErrNotExist) || err == nil && info.Mode().Type() != os.ModeSymlink {
			return abs, nil
		}
		if err != nil {
			return path, err
		}
		if path, err = os.Readlink(abs); err != nil {
			return abs, err
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(abs), path)
		}
	}
	return path, errors.New("too many symbolic links")
}

// unpack returns a backup's keys, by the names of their files, and writes the snapshot to a file.
func unpack(in io.Reader, snapshot string, progress Progress) (keys map[string][]byte, made time.Time, err error) {
	keys = map[string][]byte{}
	err = archive.Read(in, func(name string, content []byte) error {
		keys[name] = content
		return nil
	}, func(content io.Reader, size int64, at time.Time) error {
		made = at
		file, err := os.OpenFile(snapshot, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, io.TeeReader(content, &counter{all: size, progress: progress}))
		return errors.Join(err, file.Close())
	})
	return keys, made, err
}

// revisionsSince returns how many revisions there can have been since a backup was made.
func revisionsSince(made time.Time) uint64 {
	return max(uint64(max(time.Since(made), 0)/(time.Second/revisionsPerSecond)), fewestRevisions)
}

// counter counts what is written to it.
type counter struct {
	done, all int64
	progress  Progress
}

// Write implements io.Writer.
func (c *counter) Write(data []byte) (int, error) {
	c.done += int64(len(data))
	c.progress(c.done, c.all)
	return len(data), nil
}
