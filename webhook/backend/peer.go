package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/http2"
)

// http1Remembered is how long a backend is known to speak HTTP/1.1 only, before a handshake asks
// again.
const http1Remembered = 10 * time.Minute

// errHTTP1 says that a backend doesn't speak HTTP/2.
var errHTTP1 = errors.New("the backend speaks HTTP/1.1")

// peer is what is known of one address. Guarded by wire.mu.
type peer struct {
	conns      []conn
	dial       *dial     // the latest one, while it is under way, or nil
	http1Until time.Time // zero if it wasn't found to speak HTTP/1.1 only
}

// conn is a connection that speaks HTTP/2.
type conn struct {
	*http2.ClientConn
	below *flagged
}

// dial is a connection being made. Those who wait for it share what becomes of it.
type dial struct {
	began   time.Time
	cancel  context.CancelFunc
	waiters int // guarded by wire.mu
	done    chan struct{}
	err     error // valid when done
}

// GetClientConn returns a connection to address on which the request has a place. It serves
// http2.Transport, as MarkDead does.
func (w *wire) GetClientConn(req *http.Request, address string) (*http2.ClientConn, error) {
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
			if !c.below.closed.Load() && c.ReserveNewRequest() {
				w.mu.Unlock()
				return c.ClientConn, nil
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
		case <-req.Context().Done():
			w.leave(p, d)
			return nil, req.Context().Err()
		}
	}
}

// MarkDead forgets a connection.
func (w *wire) MarkDead(dead *http2.ClientConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for address, p := range w.peers {
		p.conns = slices.DeleteFunc(p.conns, func(c conn) bool { return c.ClientConn == dead })
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

// connect makes a connection that is ready for requests. errHTTP1: the backend doesn't speak
// HTTP/2.
func (w *wire) connect(ctx context.Context, address string) (conn, error) {
	tlsConn, below, err := w.handshake(ctx, address)
	if err != nil {
		return conn{}, err
	}
	if tlsConn.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		_ = tlsConn.Close()
		return conn{}, errHTTP1
	}
	c, err := w.http2.NewClientConn(&joined{Conn: tlsConn})
	if err != nil {
		_ = tlsConn.Close()
		return conn{}, err
	}
	// The server's first words are how many requests it takes at a time. With its pong they are
	// known, and those who wait aren't given a guess; neither do they share a connection that the
	// server breaks off since it wants another client certificate.
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		if ctx.Err() == nil {
			err = heard(tlsConn, err)
		}
		_ = c.Close()
		return conn{}, err
	}
	if !c.CanTakeNewRequest() {
		_ = c.Close()
		return conn{}, errors.New("http2: the server takes no requests on a new connection")
	}
	return conn{c, below}, nil
}

// heard returns what the server said before it closed a connection, if it did say why, else err:
// the first thing to fail on a connection is not always what says so.
func heard(c *tls.Conn, err error) error {
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	var op *net.OpError
	if _, said := c.Read(make([]byte, 1)); errors.As(said, &op) && op.Op == "remote error" {
		return said
	}
	return err
}
