// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"net"
	"testing"

	"gatehouse.dev/internal/webhooktest"
)

// FreePort returns a port of 127.0.0.1 on which nobody listens. Until the test is over, a program that
// names the port can listen on it, and one that asks for any port gets another one.
func FreePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	webhooktest.Keep(t, listener)
	return listener.Addr().(*net.TCPAddr).Port
}
