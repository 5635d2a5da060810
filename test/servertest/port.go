// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"fmt"
	"net"
	"testing"

	"gatehouse.dev/internal/webhooktest"
)

// FreePort returns a port on which nobody listens, at any address. Until the test is over, a program that
// names the port can listen on it, and one that asks for any port of 127.0.0.1, or of all addresses, gets
// another one.
func FreePort(t testing.TB) int {
	t.Helper()
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		webhooktest.Keep(t, listener)
		listener.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		// Somebody may listen on the port of 127.0.0.2 or ::1.
		if everywhere, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			everywhere.Close()
			return port
		}
	}
}
