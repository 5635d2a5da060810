// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
)

const (
	// idleHTTP1 is how many unused HTTP/1.1 connections to one backend are kept: as many as a
	// server has writes in flight by default (--max-mutating-requests-inflight).
	idleHTTP1 = 200

	// certificateInterval is how often the files of client certificates are read.
	certificateInterval = time.Minute

	// maxResends is how often a request is sent again after a connection didn't process it.
	maxResends = 6
)

// proxyFor returns the proxy that the environment names for a request. As in all of Kubernetes,
// NO_PROXY may contain CIDRs. Tests change it.
var proxyFor = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)

// connPools holds the connPools of the process that some Pool uses, by the hash of what their
// connections have in common.
var connPools = struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*connPool
}{all: map[[sha256.Size]byte]*connPool{}}

// connPool is an http.RoundTripper that keeps connections, to any address. Clients whose servers are
// verified by the same authorities and name, and that show the same client certificate, share one.
type connPool struct {
	users   map[*Pool]bool // guarded by connPools.mu
	proxied bool           // whether proxies of the environment are used, by http1
	breaks  bool           // whether endpoints that can't be reached aren't called
	dialTCP func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tls.Config // of connections that may agree on HTTP/2

	// inUse ends when the last user has gone; unused ends it.
	inUse  context.Context
	unused context.CancelFunc

	mu    sync.Mutex
	http1 *http.Transport  // for backends that don't speak HTTP/2
	peers map[string]*peer // by address
	dials map[*dial]bool   // all that are under way

	// certificate is the client certificate that connections were made with, nil if it isn't from
	// files. nextCheck is when to compare it with the files again.
	certificate []byte
	nextCheck   time.Time
}

func newConnPool(config *transport.Config, proxied, breaks bool) (*connPool, error) {
	tlsConfig, err := transport.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	p := &connPool{users: map[*Pool]bool{}, proxied: proxied, breaks: breaks, tls: tlsConfig,
		peers: map[string]*peer{}, dials: map[*dial]bool{}}
	p.inUse, p.unused = context.WithCancel(context.Background())
	p.dialTCP = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	if config.DialHolder != nil {
		p.dialTCP = config.DialHolder.Dial
	}
	if config.TLS.ReloadTLSFiles {
		if err := p.readCertificate(); err != nil {
			return nil, err
		}
	}
	p.http1 = &http.Transport{
		TLSClientConfig:     tlsConfig.Clone(),
		DialContext:         p.dialTCP,
		TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: idleHTTP1,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}
	p.http1.TLSClientConfig.NextProtos = []string{"http/1.1"}
	if proxied {
		p.http1.Proxy = proxyFor
	} else {
		p.http1.DialTLSContext = p.dialHTTP1
	}
	p.tls.NextProtos = []string{"h2", "http/1.1"}
	return p, nil
}

// RoundTrip sends the request to the host of its URL. If the backend says that it didn't process the
// request, it is sent again, as net/http does, after 0, 1, 2, 4, 8 and 16 seconds. The error is an
// *unconnectedError if no connection could be made.
func (p *connPool) RoundTrip(req *http.Request) (*http.Response, error) {
	for resend := 0; ; resend++ {
		c, err := p.reserve(req)
		if err != nil {
			return nil, err
		}
		resp, err := c.RoundTrip(req)
		if err == nil || resend == maxResends || !unprocessed(err) {
			return resp, err
		}
		if resend > 0 && !sleep(req.Context(), time.Second<<(resend-1)) {
			return nil, err
		}
		again := *req
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		req = &again
	}
}

// isProxied reports whether a proxy is to be asked for the request's host, or which one is can't be said.
func (p *connPool) isProxied(req *http.Request) bool {
	if !p.proxied {
		return false
	}
	proxy, err := proxyFor(req)
	return proxy != nil || err != nil
}

// unprocessed reports whether the backend says that it did nothing with a request that ended with err.
// After a protocol error, which makes net/http send a request again, it may have done something.
//
// Source: http2canRetryError in net/http, whose errors have no names outside of it.
func unprocessed(err error) bool {
	switch err.Error() {
	case "http2: client conn not usable", "http2: Transport received Server's graceful shutdown GOAWAY":
		return true
	}
	var stream streamError
	const refusedStream = 7 // RFC 9113, 7 and 8.7
	return errors.As(err, &stream) && stream.Code == refusedStream
}

// streamError has the fields of net/http's error of an HTTP/2 stream, so that errors.As copies it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

// readCertificate reads the files of the client certificate. If they have changed it closes the
// connections: a backend that is called all the time would never see the new certificate.
func (p *connPool) readCertificate() error {
	p.nextCheck = time.Now().Add(certificateInterval)
	current, err := p.tls.GetClientCertificate(nil)
	if err != nil {
		return err
	}
	if p.certificate != nil && !bytes.Equal(p.certificate, current.Certificate[0]) {
		p.close()
	}
	p.certificate = current.Certificate[0]
	return nil
}

// close closes the connections, each when its calls are done. The pool stays usable and makes new
// ones. With p.mu held.
func (p *connPool) close() {
	for address, peer := range p.peers {
		for _, c := range peer.conns {
			closeWhenUnused(c)
		}
		p.closeBreaker(&peer.breaker, address)
	}
	for d := range p.dials {
		if d.waiters == 0 {
			d.cancel()
		}
	}
	p.peers = map[string]*peer{}
	old := p.http1
	p.http1 = old.Clone()
	// Later it also closes the connections that have calls now, since it gets no new ones.
	go old.CloseIdleConnections()
}
