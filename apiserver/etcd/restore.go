// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Restore makes dir, which must not exist, the directory of a member with what is in a snapshot, a
// file with its hash at the end as etcd writes it. The member goes on at a revision that is later
// by bump, and all before that counts as compacted: who watched from a revision that the snapshot
// doesn't have, because it was made later, is told to list anew, and never that nothing has
// changed.
func Restore(file, dir string, bump uint64) error {
	err := restoreRecovering(file, dir, bump)
	if err == nil {
		err = check(dir)
	}
	if err != nil {
		return fmt.Errorf("etcd's snapshot can't be restored: %w", err)
	}
	return nil
}

// restoreRecovering turns panics into errors, and the end of the process, too.
func restoreRecovering(file, dir string, bump uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	member := "http://" + nobody
	return snapshot.NewV3(zap.New(zapcore.NewNopCore(), zap.WithFatalHook(zapcore.WriteThenPanic))).
		Restore(snapshot.RestoreConfig{
			SnapshotPath:        file,
			Name:                memberName,
			OutputDataDir:       dir,
			PeerURLs:            []string{member},
			InitialCluster:      memberName + "=" + member,
			InitialClusterToken: memberName,
			RevisionBump:        bump,
			MarkCompacted:       true,
		})
}
