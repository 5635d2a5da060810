// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package running_test tests servers rather than requests: their authentication, their start on the data of an older
// cluster, the endpoints of Services, health checks, several servers over one etcd, and what servers leave behind.
package running_test

import (
	"path/filepath"
	"sync"
	"testing"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// shared is a server with no configuration, for the tests that don't change what others rely on.
var shared = sync.OnceValue(func() *servertest.Cluster { return servertest.Start(&suite) })

// authorityOf is a server's own.
func authorityOf(t *testing.T, c *servertest.Cluster) *pki.Authority {
	t.Helper()
	return newAuthority(t, filepath.Join(c.DataDir, "pki"))
}

// newAuthority is the authority in a directory, made where there is none.
func newAuthority(t *testing.T, dir string) *pki.Authority {
	t.Helper()
	authority, err := pki.LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}
