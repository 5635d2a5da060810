// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"fmt"
	"os"

	"gatehouse.dev/apiserver/backup"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/scratch"
	"gatehouse.dev/server"
)

// OpenBackup starts a server in the process that has what a backup of gatehouse backup has, and returns it as
// a cluster to read from. The backup is not written. stop ends the server.
func OpenBackup(ctx context.Context, config *server.Config, path string) (_ *live.Cluster, stop func() error,
	_ error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the backup: %w", err)
	}
	defer file.Close()
	dir, err := scratch.Temporary("gatehouse-backup-") // whose mode is 0700
	if err != nil {
		return nil, nil, fmt.Errorf("opening the backup %s: %w", path, err)
	}
	if err := backup.Restore(file, dir, func(int64, int64) {}); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening the backup %s: %w", path, err), os.RemoveAll(dir))
	}
	c, err := startClusterIn(ctx, config, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("starting a server with the backup %s: %w", path, err)
	}
	cluster, err := live.Connect(ctx, c.config())
	if err != nil {
		return nil, nil, errors.Join(err, c.stop())
	}
	cluster.Host = path // messages name it
	return cluster, c.stop, nil
}
