// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"net"
	"sync"
	"time"
)

// connections holds the open connections, by their remote address.
type connections struct {
	pool *pool

	mu   sync.Mutex
	open map[string]*member
}

// Listen returns a listener that accepts what l accepts, within the door's bounds: if there are too
// many connections, an old one gives way to each new one.
func (d *Door) Listen(l net.Listener) net.Listener { return &listener{l, &d.connections} }

type listener struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.connections.add(accepted); c != nil {
			return c, nil
		}
	}
}

// connection is an open connection.
type connection struct {
	net.Conn
	connections *connections
	member      *member
	once        sync.Once
}

// add returns the connection, or nil if it has been closed.
func (c *connections) add(accepted net.Conn) net.Conn {
	remote := accepted.RemoteAddr().String()
	m := &member{address: addressOf(remote), drop: func() { _ = accepted.Close() }}
	c.mu.Lock()
	c.open[remote] = m
	c.mu.Unlock()
	added := &connection{Conn: accepted, connections: c, member: m}
	if !c.pool.join(m, 1) {
		_ = added.Close() // which is what there is to do about it
		return nil
	}
	return added
}

// Close implements net.Conn.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.connections.pool.leave(c.member)
		c.connections.mu.Lock()
		defer c.connections.mu.Unlock()
		if remote := c.RemoteAddr().String(); c.connections.open[remote] == c.member {
			delete(c.connections.open, remote)
		}
	})
	return err
}

// find returns the connection of a request. If it isn't among the open ones, the result counts for
// nothing.
func (c *connections) find(remote string) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.open[remote]; m != nil {
		return m
	}
	return &member{}
}

// work notes that a request of the connection is whole and is being worked at, until done.
func (c *connections) work(m *member) (done func()) {
	c.pool.change(m, func() { m.working++ })
	return func() {
		c.pool.change(m, func() {
			m.working--
			m.since = time.Now()
		})
	}
}
