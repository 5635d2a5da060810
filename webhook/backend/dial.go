// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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
)

const (
	// freshDial is how old a dial may be for another call to wait for it. If a backend was out of
	// reach, an old dial gets no answer when the backend is back; a new one does.
	freshDial = 2 * time.Second

	// http1Remembered is how long a backend is known to speak HTTP/1.1 only, before a handshake
	// asks again.
	http1Remembered = 10 * time.Minute

	dialTimeout      = 30 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second

	// A connection that is silent for pingAfter is pinged, and closed if it stays silent for
	// pingTimeout. Kubernetes has 30 and 15 seconds; while a backend's machine is gone, writes fail
	// for that long.
	pingAfter, pingTimeout = 5 * time.Second, 5 * time.Second
)

var (
	errHTTP1            = errors.New("the backend speaks HTTP/1.1")
	errHandshakeTimeout = errors.New("net/http: TLS handshake timeout") // net/http's words
)

// peer is what is known of one address. Guarded by connPool.mu.
type peer struct {
	conns      []*http.ClientConn // each speaks HTTP/2
	dial       *dial              // the latest one, while it is under way, or nil
	http1Until time.Time          // until then it is taken to speak HTTP/1.1 only
}

// dial is a connection being made. All calls that wait for it share its result.
type dial struct {
	began   time.Time
	cancel  context.CancelFunc
	waiters int           // guarded by connPool.mu
	done    chan struct{} // closed when the result is known
	err     error         // valid when done
}

// reserve returns a connection to the request's host with a place for it; or http1, which has places
// for all. It waits for a dial if there is no place yet.
func (p *connPool) reserve(req *http.Request) (http.RoundTripper, error) {
	ctx, address, proxied := req.Context(), hostPort(req.URL), p.isProxied(req)
	for {
		c, d := p.reserveNow(address, proxied)
		if c != nil {
			return c, nil
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
			// The new connection may have no place for all that waited for it.
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			if d.waiters--; d.waiters == 0 {
				d.cancel() // it may hang
			}
			return nil, ctx.Err()
		}
	}
}

// reserveNow is reserve without waiting. If there is no place it returns the dial to wait for.
func (p *connPool) reserveNow(address string, proxied bool) (http.RoundTripper, *dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.certificate != nil && time.Now().After(p.nextCheck) {
		// An error is one in the midst of a change, or shows in the next handshake.
		_ = p.readCertificate()
	}
	peer := p.peer(address)
	if proxied || time.Now().Before(peer.http1Until) {
		return p.http1, nil
	}
	for _, c := range peer.conns {
		if c.Reserve() == nil {
			return c, nil
		}
	}
	if peer.dial == nil || peer.dial.waiters == 0 || time.Since(peer.dial.began) > freshDial {
		p.startDial(peer, address)
	}
	peer.dial.waiters++
	return nil, peer.dial
}

// peer returns what is known of address. With p.mu held.
func (p *connPool) peer(address string) *peer {
	if known, ok := p.peers[address]; ok {
		return known
	}
	// Endpoints come and go: forget those that are gone.
	maps.DeleteFunc(p.peers, func(_ string, other *peer) bool {
		other.conns = slices.DeleteFunc(other.conns, closed)
		return len(other.conns) == 0 && other.dial == nil && time.Now().After(other.http1Until)
	})
	p.peers[address] = &peer{}
	return p.peers[address]
}

// startDial begins to make a connection. It goes on while any caller waits for it. With p.mu held.
func (p *connPool) startDial(peer *peer, address string) {
	ctx, cancel := context.WithCancel(context.Background())
	d := &dial{began: time.Now(), cancel: cancel, done: make(chan struct{})}
	peer.dial = d
	go func() {
		defer cancel()
		c, err := p.connect(ctx, address)
		p.mu.Lock()
		defer p.mu.Unlock()
		defer close(d.done)
		if peer.dial == d {
			peer.dial = nil
		}
		switch {
		case errors.Is(err, errHTTP1):
			peer.http1Until = time.Now().Add(http1Remembered)
		case err != nil:
			d.err = err
		case p.peers[address] != peer:
			// The connections were closed meanwhile, and this is one of them.
			closeWhenUnused(c)
		default:
			peer.conns = append(slices.DeleteFunc(peer.conns, closed), c)
		}
	}()
}

func closed(c *http.ClientConn) bool { return c.Err() != nil }

// connect makes a connection that speaks HTTP/2 and is ready for requests. It returns errHTTP1 if
// the backend doesn't speak HTTP/2.
func (p *connPool) connect(ctx context.Context, address string) (_ *http.ClientConn, err error) {
	conn, err := p.handshake(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errHTTP1
	}
	watched := &firstReadConn{Conn: conn, done: make(chan error, 1)}
	t := &http.Transport{
		DialTLSContext:     func(context.Context, string, string) (net.Conn, error) { return watched, nil },
		Protocols:          new(http.Protocols),
		HTTP2:              &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		IdleConnTimeout:    idleTimeout,
		DisableCompression: true,
	}
	// The connection is no *tls.Conn, so net/http can't see what it has agreed on and must be told.
	t.Protocols.SetUnencryptedHTTP2(true)
	c, err := t.NewClientConn(ctx, "https", address)
	if err != nil {
		return nil, err
	}

	// The server begins with its settings, among them how many requests it takes at a time. An
	// http.ClientConn assumes 100 until then, and has no way to wait for it. Or the server breaks
	// the connection off, because it wants another client certificate.
	select {
	case err = <-watched.done:
	case <-time.After(handshakeTimeout):
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil && c.Available() == 0 {
		err = errors.New("http2: the server takes no requests on a new connection")
	}
	return c, err
}

// handshake makes a TLS connection to address and verifies the server.
func (p *connPool) handshake(ctx context.Context, address string) (*tls.Conn, error) {
	raw, err := p.dialTCP(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, errHandshakeTimeout)
	defer cancel()
	conn := tls.Client(raw, p.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		if context.Cause(ctx) == errHandshakeTimeout {
			err = errHandshakeTimeout
		}
		return nil, err
	}
	return conn, nil
}

// firstReadConn is a connection that tells when the first read is done with: its error, or nil when
// the frames that it read, a server's settings, have been processed.
type firstReadConn struct {
	*tls.Conn
	done  chan error
	reads int
}

// Read implements net.Conn. A second read begins when all frames of the first are processed.
func (c *firstReadConn) Read(b []byte) (int, error) {
	c.reads++
	if c.reads == 2 {
		c.done <- nil
	}
	n, err := c.Conn.Read(b)
	if c.reads == 1 && err != nil {
		c.reads++
		c.done <- err
	}
	return n, err
}

// closeWhenUnused closes a connection when its calls are done. It must not be given more of them.
func closeWhenUnused(c *http.ClientConn) {
	closeUnused := func(c *http.ClientConn) {
		if c.InFlight() == 0 {
			go func() { _ = c.Close() }()
		}
	}
	c.SetStateHook(closeUnused)
	closeUnused(c)
}
