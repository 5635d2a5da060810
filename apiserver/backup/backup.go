// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup saves what a server keeps in its data directory, and makes a data directory from
// it again.
//
// A backup has a snapshot of the server's own etcd, with everything acknowledged when it began, and
// the keys by which clients and the server know each other. Package archive defines the file. The
// snapshot of a running server comes through its etcd's socket, which is in the data directory and
// open to its owner only. If the server doesn't run, its etcd is started for the backup.
//
// A restored server continues at revisions that no server before it has had. So clients whose
// caches are newer than the backup are told to read again.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
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
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"gatehouse.dev/apiserver/backup/archive"
	"gatehouse.dev/apiserver/datadir"
	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/apiserver/pki"
)

// Progress is told how many bytes are done, of how many.
type Progress func(done, all int64)

// Save writes a backup of the server with a data directory to out.
func Save(ctx context.Context, dir string, out io.Writer, progress Progress) error {
	if _, err := os.Stat(filepath.Join(dir, datadir.Etcd, "member")); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data directory %s has no etcd of its own: there is nothing to save (if the server was "+
			"started with --etcd-servers, save those)", dir)
	} else if err != nil {
		return err
	}
	keys, err := readKeys(filepath.Join(dir, datadir.PKI))
	if err != nil {
		return err
	}
	// The administrator may save a server that runs as another user.
	if endpoint, runs := etcd.Running(filepath.Join(dir, datadir.Etcd)); runs {
		return save(ctx, keys, endpoint, out, progress)
	}
	lock, err := datadir.Acquire(dir)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := lock.Check(datadir.PKI, datadir.Etcd); err != nil {
		return err
	}
	stopped, err := etcd.Start(ctx, filepath.Join(dir, datadir.Etcd))
	if err != nil {
		return err
	}
	defer stopped.Stop()
	return save(ctx, keys, stopped.Endpoint(), out, progress)
}

// save writes a backup of keys, with a snapshot of the etcd at endpoint.
func save(ctx context.Context, keys map[string][]byte, endpoint string, out io.Writer, progress Progress) error {
	connection, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream if it isn't read to its end
	begun := time.Now()
	stream, err := etcdserverpb.NewMaintenanceClient(connection).Snapshot(ctx, &etcdserverpb.SnapshotRequest{})
	if err != nil {
		return fmt.Errorf("etcd's snapshot: %w", err)
	}
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("etcd's snapshot: %w", err)
	}
	to := archive.NewWriter(out, begun)
	for _, name := range archive.Keys {
		if content, ok := keys[name]; ok {
			if err := to.Key(name, content); err != nil {
				return err
			}
		}
	}
	database := int64(len(first.Blob)) + int64(first.RemainingBytes)
	if err := to.Snapshot(database+sha256.Size, func(out io.Writer) error {
		return receive(stream, first, out, func(done int64) { progress(done, database) })
	}); err != nil {
		return err
	}
	return to.Close()
}

// readKeys reads the keys in a directory, by the names of their files. A server that was given
// others lacks some.
func readKeys(dir string) (map[string][]byte, error) {
	keys := map[string][]byte{}
	for _, name := range archive.Keys {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		keys[name] = content
	}
	if err := pki.CheckKeys(keys); err != nil {
		return nil, fmt.Errorf("a backup of the keys in %s couldn't be restored: %w", dir, err)
	}
	return keys, nil
}

// receive writes what comes, and then its hash, which comes last and must be right.
func receive(stream etcdserverpb.Maintenance_SnapshotClient, part *etcdserverpb.SnapshotResponse, out io.Writer,
	progress func(done int64)) error {
	sum := sha256.New()
	for done := int64(0); ; {
		if _, err := out.Write(part.Blob); err != nil {
			return err
		}
		done += int64(len(part.Blob))
		sum.Write(part.Blob)
		progress(done)
		remaining := part.RemainingBytes
		var err error
		if part, err = stream.Recv(); err != nil {
			return fmt.Errorf("etcd's snapshot has been broken off: %w", err)
		}
		if remaining > 0 {
			continue
		}
		if !bytes.Equal(part.Blob, sum.Sum(nil)) {
			return errors.New("etcd's snapshot has arrived with another hash than it was sent with")
		}
		_, err = out.Write(part.Blob)
		return err
	}
}
