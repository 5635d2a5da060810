// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import "go.etcd.io/etcd/server/v3/storage/wal"

// littleLog is the size that a log reserves at a time, in bytes, if it will stay small.
const littleLog = 4 << 20

// ReserveLittle has every server of the process that is started from now on reserve room for its
// log in small pieces. It is for processes whose data is in memory, where 64 MB at a time, and as
// much beforehand, are taken at once, and cost the time to clear them. It may not be called while a
// server runs.
func ReserveLittle() { wal.SegmentSizeBytes = littleLog }
