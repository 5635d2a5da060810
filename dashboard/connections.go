// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections bounds the open connections. Browsers open six to an address.
const maxConnections = 64

// connections bounds the connections of a server. If there are too many, it closes the oldest one
// on which nobody has been let in yet, so strangers who connect and wait keep nobody out.
type connections struct {
	mu        sync.Mutex
	all       int
	strangers []net.Conn // the oldest first
}

// connectionKey is the key of a request's *connection in its context.
type connectionKey struct{}

// connection is one of the connections.
type connection struct {
	net.Conn
	of *connections
}

// limit makes a server keep to maxConnections.
func (c *connections) limit(server *http.Server) {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			c.add(conn)
		case http.StateClosed, http.StateHijacked:
			c.remove(conn)
		}
	}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, &connection{conn, c})
	}
}

func (c *connections) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	c.strangers = append(c.strangers, conn)
	if c.all > maxConnections {
		c.strangers[0].Close() // the server removes it, and whatever it was doing ends
		c.strangers = c.strangers[1:]
	}
}

func (c *connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	c.forget(conn)
}

// forget removes a connection from the strangers'.
func (c *connections) forget(conn net.Conn) {
	if i := slices.Index(c.strangers, conn); i >= 0 {
		c.strangers = slices.Delete(c.strangers, i, i+1)
	}
}

// markKnown marks the connection of a request as one on which somebody has been let in.
func markKnown(ctx context.Context) {
	if conn, ok := ctx.Value(connectionKey{}).(*connection); ok {
		conn.of.mu.Lock()
		defer conn.of.mu.Unlock()
		conn.of.forget(conn.Conn)
	}
}
