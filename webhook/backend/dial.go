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
	"net/http/httptrace"
	"slices"
	"sync/atomic"
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

	// maxPatience is how long a call waits for a connection to one of several endpoints, before it
	// tries another.
	maxPatience = time.Second
)

var (
	errHTTP1            = errors.New("the backend speaks HTTP/1.1")
	errHandshakeTimeout = errors.New("net/http: TLS handshake timeout") // net/http's words
	errImpatient        = errors.New("no connection yet")
)

// unconnectedError is the error of a request for which no connection could be made. Nothing was sent.
type unconnectedError struct{ error }

// Unwrap returns the error of the connection.
func (e *unconnectedError) Unwrap() error { return e.error }

// patienceKey is the key of a context's value that says how long to wait for a connection; none: for as
// long as the request lasts.
type patienceKey struct{}

// peer is what is known of one address. Guarded by connPool.mu.
type peer struct {
	conns      []*http.ClientConn // each speaks HTTP/2
	dial       *dial              // the latest one, while it is under way, or nil
	http1Until time.Time          // until then it is taken to speak HTTP/1.1 only
	breaker    breaker
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
	patience, _ := ctx.Value(patienceKey{}).(time.Duration)
	var impatient <-chan time.Time
	for {
		c, d := p.reserveNow(address, proxied)
		if http1, ok := c.(*http.Transport); ok && patience > 0 && !p.proxied {
			return &impatientTransport{http1, patience}, nil
		}
		if c != nil {
			return c, nil
		}
		if patience > 0 && impatient == nil {
			impatient = time.After(patience)
		}
		var err error
		select {
		case <-d.done:
			if err = d.err; err == nil {
				continue // the new connection may have no place for all that waited for it
			}
		case <-ctx.Done():
			err = ctx.Err()
		case <-impatient:
			err = &unconnectedError{errImpatient}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		d.waiters--
		return nil, err
	}
}

// impatientTransport is an http.RoundTripper that gives up a request that has no connection in time.
type impatientTransport struct {
	http1    *http.Transport
	patience time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t *impatientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	const waiting, connected, gaveUp = 0, 1, 2
	var state atomic.Int32
	ctx, cancel := context.WithCancel(req.Context())
	timer := time.AfterFunc(t.patience, func() {
		if state.CompareAndSwap(waiting, gaveUp) {
			cancel()
		}
	})
	// If the connection comes just when the request is given up, the request may be sent.
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { state.Store(connected) }}
	resp, err := t.http1.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	timer.Stop()
	if err != nil && state.Load() == gaveUp {
		err = &unconnectedError{errImpatient}
	}
	return resp, err
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
	if peer.dial == nil || time.Since(peer.dial.began) > freshDial {
		p.startDial(peer, address, dialTimeout+2*handshakeTimeout)
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
		return len(other.conns) == 0 && other.dial == nil && time.Now().After(other.http1Until) &&
			(other.breaker.why == nil || time.Since(other.breaker.tried) > forgetAfter)
	})
	p.peers[address] = &peer{}
	return p.peers[address]
}

// startDial begins to make a connection. With p.mu held. It goes on if nobody waits for it any more: how it
// ends says whether the backend can be reached.
func (p *connPool) startDial(peer *peer, address string, timeout time.Duration) *dial {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	d := &dial{began: time.Now(), cancel: cancel, done: make(chan struct{})}
	peer.dial, p.dials[d] = d, true
	go func() {
		defer cancel()
		c, err := p.connect(ctx, address)
		p.mu.Lock()
		defer p.mu.Unlock()
		defer close(d.done)
		delete(p.dials, d)
		if peer.dial == d {
			peer.dial = nil
		}
		switch {
		case errors.Is(err, errHTTP1):
			peer.http1Until, err = time.Now().Add(http1Remembered), nil
		case err != nil:
			d.err = &unconnectedError{err}
		case p.peers[address] != peer:
			// The connections were closed meanwhile, and this is one of them.
			closeWhenUnused(c)
		default:
			peer.conns = append(slices.DeleteFunc(peer.conns, closed), c)
		}
		if ctx.Err() != context.Canceled {
			p.note(peer, address, d.began, err)
		}
	}()
	return d
}

// dialHTTP1 makes a connection of http1.
func (p *connPool) dialHTTP1(ctx context.Context, _, address string) (net.Conn, error) {
	began := time.Now()
	conn, err := p.handshake(ctx, address, "http/1.1")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(p.peer(address), address, began, err)
	if err != nil {
		return nil, &unconnectedError{err}
	}
	return conn, nil
}

func closed(c *http.ClientConn) bool { return c.Err() != nil }

// connect makes a connection that speaks HTTP/2 and is ready for requests. It returns errHTTP1 if
// the backend doesn't speak HTTP/2.
func (p *connPool) connect(ctx context.Context, address string) (_ *http.ClientConn, err error) {
	conn, err := p.handshake(ctx, address, "h2", "http/1.1")
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

// handshake makes a TLS connection to address, for one of the protocols, and verifies the server.
func (p *connPool) handshake(ctx context.Context, address string, protocols ...string) (*tls.Conn, error) {
	raw, err := p.dialTCP(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, errHandshakeTimeout)
	defer cancel()
	config := p.tls.Clone()
	config.NextProtos = protocols
	conn := tls.Client(raw, config)
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
