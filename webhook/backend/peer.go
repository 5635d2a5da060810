package backend

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"
)

// http1Remembered is how long a backend is known to speak HTTP/1.1 only, before a handshake asks
// again.
const http1Remembered = 10 * time.Minute

// errHTTP1 says that a backend doesn't speak HTTP/2.
var errHTTP1 = errors.New("the backend speaks HTTP/1.1")

// peer is what is known of one address. Guarded by wire.mu.
type peer struct {
	conns      []*http.ClientConn // each speaks HTTP/2
	dial       *dial              // the latest one, while it is under way, or nil
	http1Until time.Time          // zero if it wasn't found to speak HTTP/1.1 only
}

// dial is a connection being made. Those who wait for it share what becomes of it.
type dial struct {
	began   time.Time
	cancel  context.CancelFunc
	waiters int // guarded by wire.mu
	done    chan struct{}
	err     error // valid when done
}

// reserve returns a connection to address on which a place is reserved for one request. It returns
// errHTTP1 if the backend doesn't speak HTTP/2.
func (w *wire) reserve(ctx context.Context, address string) (*http.ClientConn, error) {
	w.mu.Lock()
	for {
		p := w.peer(address)
		if !p.http1Until.IsZero() {
			if time.Now().Before(p.http1Until) {
				w.mu.Unlock()
				return nil, errHTTP1
			}
			p.http1Until = time.Time{}
		}
		for _, c := range p.conns {
			if c.Reserve() == nil {
				w.mu.Unlock()
				return c, nil
			}
		}
		d := p.dial
		if d == nil || time.Since(d.began) > freshDial {
			d = w.startDial(p, address)
		}
		d.waiters++
		w.mu.Unlock()

		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
			w.mu.Lock() // and see whether there is a place for all who waited
		case <-ctx.Done():
			w.leave(p, d)
			return nil, ctx.Err()
		}
	}
}

// forget removes a closed connection.
func (w *wire) forget(closed *http.ClientConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for address, p := range w.peers {
		p.conns = slices.DeleteFunc(p.conns, func(c *http.ClientConn) bool { return c == closed })
		if len(p.conns) == 0 && p.dial == nil && p.http1Until.IsZero() {
			delete(w.peers, address) // endpoints come and go
		}
	}
}

// peer returns what is known of address. With w.mu held.
func (w *wire) peer(address string) *peer {
	p, ok := w.peers[address]
	if !ok {
		now := time.Now()
		maps.DeleteFunc(w.peers, func(_ string, p *peer) bool {
			return len(p.conns) == 0 && p.dial == nil && now.After(p.http1Until)
		})
		p = &peer{}
		w.peers[address] = p
	}
	return p
}

// startDial begins a connection, whose making no caller's context ends. With w.mu held.
func (w *wire) startDial(p *peer, address string) *dial {
	ctx, cancel := context.WithCancel(context.Background())
	d := &dial{began: time.Now(), cancel: cancel, done: make(chan struct{})}
	p.dial = d
	closes := w.closes
	go func() {
		defer cancel()
		c, err := w.connect(ctx, address)
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.dial == d {
			p.dial = nil
		}
		switch {
		case err == nil && w.closes != closes:
			// It is one of those that were closed meanwhile; who waits for it makes another.
			go func() { _ = c.Close() }()
		case err == nil:
			p := w.peer(address) // it may be another one by now
			p.conns = append(p.conns, c)
			c.SetStateHook(func(c *http.ClientConn) {
				if c.Err() != nil {
					go w.forget(c) // the hook may run while w.mu is held
				}
			})
		case errors.Is(err, errHTTP1):
			w.peer(address).http1Until = time.Now().Add(http1Remembered)
		}
		d.err = err
		close(d.done)
	}()
	return d
}

// leave is for a caller that won't wait any longer. When all have left, the dial ends: it may hang.
func (w *wire) leave(p *peer, d *dial) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.waiters--; d.waiters == 0 {
		d.cancel()
		if p.dial == d {
			p.dial = nil
		}
	}
}

// connect makes a connection that is ready for requests. It returns errHTTP1 if the backend doesn't
// speak HTTP/2.
func (w *wire) connect(ctx context.Context, address string) (*http.ClientConn, error) {
	conn, err := w.handshake(ctx, address)
	if err != nil {
		return nil, err
	}
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		_ = conn.Close()
		return nil, errHTTP1
	}
	c, err := http2On(ctx, conn, address)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	// The server begins with its settings, among them how many requests it takes at a time. The
	// callers that wait are not given a guess of that. They don't share a connection either that the
	// server breaks off because it wants another client certificate.
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	select {
	case <-conn.greeted:
		err = conn.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil && c.Available() == 0 {
		err = errors.New("http2: the server takes no requests on a new connection")
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// drain closes a connection when its calls are done, or after the longest timeout that a call can
// have. No more calls may be given to it.
func drain(c *http.ClientConn) {
	late := time.AfterFunc(maxTimeout, func() { _ = c.Close() })
	closeIdle := func(c *http.ClientConn) {
		if c.InFlight() == 0 {
			late.Stop()
			go func() { _ = c.Close() }()
		}
	}
	c.SetStateHook(closeIdle)
	closeIdle(c)
}
