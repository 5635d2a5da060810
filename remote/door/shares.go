// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// addressOf returns a caller's address; for IPv6 its network, since one machine has all of it.
func addressOf(remote string) netip.Prefix {
	ap, _ := netip.ParseAddrPort(remote) // callers without an address share one
	address := ap.Addr().Unmap().WithZone("")
	return netip.PrefixFrom(address, min(64, address.BitLen())).Masked()
}

// A budget is an amount that addresses share. An address may hold as much as it leaves to all others.
type budget struct {
	total, taken int64
	mu           sync.Mutex
	held         map[netip.Prefix]int64
	waiting      []*waiter
}

type waiter struct {
	address netip.Prefix
	amount  int64
	granted chan struct{} // closed when the address holds the amount
}

// take gives an address an amount as soon as it may have it. It returns false if done is closed before.
func (b *budget) take(address netip.Prefix, amount int64, done <-chan struct{}) bool {
	w := &waiter{address, amount, make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	b.grant()
	b.mu.Unlock()
	select {
	case <-w.granted:
		return true
	case <-done:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.waiting)
	b.waiting = slices.DeleteFunc(b.waiting, func(o *waiter) bool { return o == w })
	return len(b.waiting) == before
}

// give takes an amount back.
func (b *budget) give(address netip.Prefix, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= amount
	if b.held[address] -= amount; b.held[address] == 0 {
		delete(b.held, address)
	}
	b.grant()
}

// grant grants what may be had. The address that holds least is next.
func (b *budget) grant() {
	for {
		next := -1
		for i, w := range b.waiting {
			if held := b.held[w.address]; held+b.taken+2*w.amount <= b.total &&
				(next < 0 || held < b.held[b.waiting[next].address]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := b.waiting[next]
		b.waiting = slices.Delete(b.waiting, next, next+1)
		b.taken += w.amount
		b.held[w.address] += w.amount
		close(w.granted)
	}
}

const (
	mostConnections, mostWaiting = 1024, 1536      // that are served, and that wait if their address holds most
	spared                       = 5 * time.Second // is a connection without a new request, if others of its address wait
)

// reserved is how many connections don't give way: with a verified certificate, and for health and metrics.
var reserved = map[string]int{"certificate": mostConnections / 4, "health": 16}

// A connection is read from when it is served.
type connection struct {
	net.Conn
	all     *connections
	address netip.Prefix
	kind    string
	used    time.Time     // when it was opened, or when its last request began
	served  chan struct{} // closed when it is served, or ends
}

// connections is a listener that holds its connections.
type connections struct {
	net.Listener
	mu      sync.Mutex
	open    map[string]*connection // those that are served, by remote address with the port
	waiting []*connection
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	added := &connection{Conn: accepted, all: c, address: addressOf(accepted.RemoteAddr().String()), used: time.Now(),
		served: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= mostConnections {
		next := c.next()
		if next.address == added.address && time.Since(next.used) < spared {
			if c.waiting = append(c.waiting, added); len(c.waiting) > mostWaiting {
				go c.waiting[0].Close()
			}
			return added, nil
		}
		gaveWay.Inc()
		delete(c.open, next.RemoteAddr().String())
		_ = next.Conn.Close() // there is nobody to tell
	}
	c.open[added.RemoteAddr().String()] = added
	close(added.served)
	return added, nil
}

// next returns the connection that gives way next: the least recently used of the address that holds most.
func (c *connections) next() (next *connection) {
	ofKind, held := map[string]int{}, map[netip.Prefix]int{}
	for _, o := range c.open {
		ofKind[o.kind]++
	}
	for _, o := range c.open {
		if ofKind[o.kind] > reserved[o.kind] {
			held[o.address]++
		}
	}
	for _, o := range c.open {
		if ofKind[o.kind] > reserved[o.kind] && (next == nil ||
			cmp.Or(held[o.address]-held[next.address], next.used.Compare(o.used)) > 0) {
			next = o
		}
	}
	return next
}

// use notes that a connection has a request.
func (c *connections) use(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.open[r.RemoteAddr]; o != nil { // it hasn't given way
		o.used, o.kind = time.Now(), ""
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			o.kind = "certificate"
		} else if slices.Contains(OpenPaths, r.URL.Path) {
			o.kind = "health"
		}
	}
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	<-c.served
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	all := c.all
	all.mu.Lock()
	defer all.mu.Unlock()
	if i := slices.Index(all.waiting, c); i >= 0 {
		all.waiting = slices.Delete(all.waiting, i, i+1)
		close(c.served)
	} else if remote := c.RemoteAddr().String(); all.open[remote] == c {
		delete(all.open, remote)
		if len(all.waiting) > 0 {
			first := all.waiting[0]
			all.waiting = all.waiting[1:]
			all.open[first.RemoteAddr().String()] = first
			close(first.served)
		}
	}
	return c.Conn.Close()
}
