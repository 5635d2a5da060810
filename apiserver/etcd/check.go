// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// check says what is wrong with the data in dir, if anything is. etcd would find most of it, too,
// but in goroutines of its own, where it ends the process with their stacks. In two cases it would
// wait for ever: with a log that lost its end, since it takes every new entry for one that its
// database has already; and with one that was killed before its first entry, since it then knows of
// no member that could lead. The latter has no data, and is removed.
func check(dir string) error {
	member := filepath.Join(dir, "member")
	database, log := filepath.Join(member, "snap", "db"), filepath.Join(member, "wal")
	stored, err := checkDatabase(database)
	if err != nil {
		return fmt.Errorf("the database %s is damaged: %w", database, err)
	}
	if stored == 0 && !wal.Exist(log) {
		return nil // a new member
	}
	logged, err := lastLogged(log)
	if err != nil {
		return fmt.Errorf("the log %s is damaged: %w", log, err)
	}
	if logged < stored {
		return fmt.Errorf("the log %s is damaged: it ends at entry %d, and the database has entry %d", log, logged,
			stored)
	}
	if logged == 0 {
		return os.RemoveAll(member)
	}
	return nil
}

// checkDatabase walks through all of a database's pages, and returns the index of the last log
// entry that is in it. That is 0 for one which has nothing yet, or isn't there: it is made anew
// from the log.
func checkDatabase(name string) (index uint64, err error) {
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	// Reading beyond the file's end is a fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it has %d bytes of %d", info.Size(), tx.Size())
		}
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			if b := meta.Get([]byte("consistent_index")); len(b) == 8 {
				index = binary.BigEndian.Uint64(b)
			}
		}
		return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
			return bucket.ForEach(func(_, _ []byte) error { return nil })
		})
	})
	return index, err
}

// lastLogged is the index of the log's last entry.
func lastLogged(dir string) (uint64, error) {
	if !wal.Exist(dir) {
		return 0, errors.New("it is not there")
	}
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return 0, err
	}
	if len(snapshots) == 0 {
		return 0, errors.New("it has no beginning")
	}
	last := snapshots[len(snapshots)-1]
	w, err := wal.OpenForRead(zap.NewNop(), dir, last)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	_, _, entries, err := w.ReadAll()
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		return last.GetIndex(), nil
	}
	return entries[len(entries)-1].GetIndex(), nil
}
