// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

// A server that reserves little for its log has that much, stores more than fits in one piece, and
// has all of it.
func TestReserveLittle(t *testing.T) {
	before := wal.SegmentSizeBytes
	defer func() { wal.SegmentSizeBytes = before }()
	ReserveLittle()
	dir, err := os.MkdirTemp("", "gatehouse-etcd-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	value := string(make([]byte, 1<<20))
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if _, err := s.Client().KV.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) < 2 {
		t.Errorf("the logs are %v, %v", logs, err)
	}
	for _, log := range logs {
		if info, err := os.Stat(log); err != nil || info.Size() > 2*littleLog {
			t.Errorf("%s: %v, %v", log, info, err)
		}
	}
	s.Stop()
	if s, err = Start(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if got, err := s.Client().KV.Get(t.Context(), "a"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
