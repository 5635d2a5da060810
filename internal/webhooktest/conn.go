// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooktest

import (
	"io"
	"net"
	"sync"
)

// trackingListener is a listener that records the open connections of its server.
type trackingListener struct {
	net.Listener
	server *Server
}

func (l trackingListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{accepted, l.server}
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.server.open[c] = struct{}{}
	return c, nil
}

// conn is a connection that counts as open until it is closed. It loses the bytes that are sent while
// the server is frozen.
type conn struct {
	net.Conn
	server *Server
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.server.frozen.Load() {
			return n, err
		}
	}
}

func (c *conn) Write(b []byte) (int, error) {
	if c.server.frozen.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.open, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}

// Refusing returns an address, "127.0.0.1:<port>", that refuses connections. It is the client's end of
// a connection, so that no other server gets it before the test ends.
func Refusing(t TB) string {
	t.Helper()
	listener := listen(t)
	c, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		_ = listener.Close()
		t.Fatalf("connecting to %s: %v", listener.Addr(), err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = listener.Close()
	})
	return c.LocalAddr().String()
}

// Keep keeps a listener's port from others until the test is over, also after the listener is closed: a
// program that names the port can listen on it, and one that asks for any port gets another one. The
// listener must not be in use yet.
func Keep(t TB, listener net.Listener) {
	t.Helper()
	// The two ends of a connection are on the port when the listener is gone.
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatalf("connecting to %s: %v", listener.Addr(), err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err := listener.Accept()
	if err != nil {
		t.Fatalf("accepting at %s: %v", listener.Addr(), err)
	}
	t.Cleanup(func() { _ = server.Close() })
}

// Silent returns an address, "127.0.0.1:<port>", that accepts connections and never sends anything, not
// even in a TLS handshake.
func Silent(t TB) string {
	t.Helper()
	return accept(t, func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c) // until the client gives up
	})
}

// Plaintext returns an address, "127.0.0.1:<port>", that answers everything with an HTTP response
// without TLS.
func Plaintext(t TB) string {
	t.Helper()
	return accept(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTPS request to an HTTP server.\n")
		// Closing with unread data would reset the connection, and the answer would be lost.
		_, _ = io.Copy(io.Discard, c)
	})
}

func listen(t TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("webhook backend: %v", err)
	}
	return listener
}

// accept returns an address. It calls handle for each connection to it, and then closes the connection.
// At the test's end it closes those that are left, and waits for their handlers.
func accept(t TB, handle func(net.Conn)) string {
	t.Helper()
	listener := listen(t)
	var (
		handlers sync.WaitGroup
		mu       sync.Mutex
		open     []net.Conn
	)
	handlers.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			handlers.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		handlers.Wait()
	})
	return listener.Addr().String()
}
