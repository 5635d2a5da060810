// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.dev/apiserver/upstream"
)

const (
	// quietTime is how long nothing must have been served before connections are closed. A last answer,
	// or the message that ends a connection, may still be on its way.
	quietTime = 50 * time.Millisecond
	// quietPoll is how often that is checked.
	quietPoll = 5 * time.Millisecond
)

// A listener knows its connections, and what is being served on them. The server waits a second for
// clients that keep a connection open and ask nothing; here they wait no longer than they need to.
type listener struct {
	net.Listener
	requests atomic.Int64 // being served
	served   atomic.Int64 // when the last one ended, in nanoseconds of Unix time
	closing  sync.Once

	mu     sync.Mutex
	closed bool
	open   map[*connection]struct{}
}

// A connection takes itself off its listener's when it is closed.
type connection struct {
	net.Conn
	of *listener
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, open: map[*connection]struct{}{}}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		// An error shows at the first read, too.
		_ = tcp.SetKeepAlive(true)
		_ = tcp.SetKeepAlivePeriod(upstream.KeepAlivePeriod)
	}
	c := &connection{Conn: accepted, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		accepted.Close()
		return nil, net.ErrClosed
	}
	l.open[c] = struct{}{}
	return c, nil
}

// Close implements net.Listener. It is the first thing that a server does that stops for good; the
// connections are closed once nothing has been served on them for a moment.
func (l *listener) Close() error {
	l.closing.Do(func() {
		l.served.Store(time.Now().UnixNano())
		go func() {
			for l.requests.Load() > 0 || time.Since(time.Unix(0, l.served.Load())) < quietTime {
				time.Sleep(quietPoll)
			}
			l.closeConnections()
		}()
	})
	return l.Listener.Close()
}

func (l *listener) closeConnections() {
	l.mu.Lock()
	l.closed = true
	connections := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range connections {
		c.Conn.Close()
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// counted counts the requests that are served on the listener's connections. It leaves out the
// server's requests to itself, because some of them last until nothing else is served.
func (l *listener) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(http.LocalAddrContextKey) == nil { // no server of net/http got it
			next.ServeHTTP(w, r)
			return
		}
		l.requests.Add(1)
		defer func() {
			l.served.Store(time.Now().UnixNano())
			l.requests.Add(-1)
		}()
		next.ServeHTTP(w, r)
	})
}
