// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"os"
	"testing"

	"gatehouse.dev/apiserver/etcd"
)

// StartEtcd starts an etcd for several servers. It ends with the test.
func StartEtcd(t testing.TB) *etcd.Server {
	t.Helper()
	// Not t.TempDir: a socket's path must be short, and tests' names are long.
	dir, err := os.MkdirTemp("", "gatehouse-etcd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	return store
}
