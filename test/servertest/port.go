// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"net"
	"testing"
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
	// The two ends of a connection keep the port in use when the listener is gone.
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}
