package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
)

const (
	dialTimeout      = 30 * time.Second
	handshakeTimeout = 10 * time.Second
	// freshDial is how old a dial may be for another call to wait for it. What was sent into the
	// void when a backend was out of reach isn't answered once it is back; a new dial is.
	freshDial   = 2 * time.Second
	idleTimeout = 90 * time.Second

	// idleHTTP1 is how many unused HTTP/1.1 connections to one backend are kept: as many as a
	// server has writes in flight by default (--max-mutating-requests-inflight).
	idleHTTP1 = 200

	// A connection that is silent for pingAfter is pinged, and closed when it stays silent for
	// pingTimeout. Kubernetes takes 30 and 15 seconds for its HTTP/2 connections; here all writes
	// fail for so long when a backend's machine is gone.
	pingAfter, pingTimeout = 5 * time.Second, 5 * time.Second

	// certificateInterval is how often the files of client certificates are looked at.
	certificateInterval = time.Minute
)

// proxyFor is the proxy that the environment names for a request; with CIDRs in NO_PROXY, as all of
// Kubernetes has it. Tests change it.
var proxyFor = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)

// identity is what connections have in common that can be shared between clients.
type identity struct {
	serverName, caData, caFile           string
	insecure                             bool
	certData, keyData, certFile, keyFile string
	// a credential plugin's, as is dial
	certificate *transport.GetCertHolder
	dial        *transport.DialHolder
	proxy       string
}

func identify(config *transport.Config, via *url.URL) identity {
	id := identity{
		serverName:  config.TLS.ServerName,
		caData:      string(config.TLS.CAData),
		caFile:      config.TLS.CAFile,
		insecure:    config.TLS.Insecure,
		certData:    string(config.TLS.CertData),
		keyData:     string(config.TLS.KeyData),
		certFile:    config.TLS.CertFile,
		keyFile:     config.TLS.KeyFile,
		certificate: config.TLS.GetCertHolder,
		dial:        config.DialHolder,
	}
	if via != nil {
		id.proxy = via.String()
	}
	return id
}

// wire is the connections of one identity, to any address. It is an http.RoundTripper that connects
// to the URL's host.
type wire struct {
	id      identity
	holders int // pools that hold it, guarded by wires.mu

	tls     *tls.Config
	dialTCP func(ctx context.Context, network, address string) (net.Conn, error)
	http1   atomic.Pointer[http.Transport]

	// shown is the client certificate from files that connections were made with, nil if there are
	// no files; nextCheck is when to compare it with the files again, in Unix nanoseconds.
	shown     atomic.Pointer[tls.Certificate]
	nextCheck atomic.Int64

	mu     sync.Mutex
	peers  map[string]*peer // by address
	closes int              // how often the connections were closed
}

func newWire(id identity, config *transport.Config, via *url.URL) (*wire, error) {
	tlsConfig, err := transport.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	w := &wire{id: id, tls: tlsConfig, peers: map[string]*peer{}}
	w.dialTCP = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	if config.DialHolder != nil {
		w.dialTCP = config.DialHolder.Dial
	}
	if config.TLS.ReloadTLSFiles {
		certificate, err := tlsConfig.GetClientCertificate(nil)
		if err != nil {
			return nil, err
		}
		w.shown.Store(certificate)
		w.nextCheck.Store(time.Now().Add(certificateInterval).UnixNano())
	}

	oneOnly := tlsConfig.Clone()
	oneOnly.NextProtos = []string{"http/1.1"}
	http1 := &http.Transport{
		TLSClientConfig:     oneOnly,
		DialContext:         w.dialTCP,
		TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: idleHTTP1,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}
	if via != nil {
		http1.Proxy = http.ProxyURL(via)
	}
	w.http1.Store(http1)

	w.tls.NextProtos = []string{"h2", "http/1.1"}
	return w, nil
}

// RoundTrip sends the request by the protocol that the host speaks.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.checkCertificate()
	if w.id.proxy != "" {
		return w.http1.Load().RoundTrip(req)
	}
	resp, err := w.roundTrip2(req)
	if !errors.Is(err, errHTTP1) {
		return resp, err
	}
	// A first attempt, on a connection that went away, may have read the body.
	if req, err = repeat(req); err != nil {
		return nil, err
	}
	return w.http1.Load().RoundTrip(req)
}

// handshake makes a connection to address and proves who is there.
func (w *wire) handshake(ctx context.Context, address string) (*greetedConn, error) {
	raw, err := w.dialTCP(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, w.tls)
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, errHandshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		if context.Cause(ctx) == errHandshakeTimeout {
			err = errHandshakeTimeout
		}
		return nil, err
	}
	return &greetedConn{Conn: conn, greeted: make(chan struct{})}, nil
}

// errHandshakeTimeout has net/http's words.
var errHandshakeTimeout = errors.New("net/http: TLS handshake timeout")

// checkCertificate has new connections made once the files of the client certificate have changed.
// Those that are there would go on for as long as there are calls, and with them what the server
// decided by the certificate before.
func (w *wire) checkCertificate() {
	shown := w.shown.Load()
	if shown == nil {
		return
	}
	now, next := time.Now(), w.nextCheck.Load()
	if now.UnixNano() < next || !w.nextCheck.CompareAndSwap(next, now.Add(certificateInterval).UnixNano()) {
		return
	}
	current, err := w.tls.GetClientCertificate(nil)
	if err != nil || bytes.Equal(current.Certificate[0], shown.Certificate[0]) {
		return // an error is one in the midst of a change, or shows in the next handshake
	}
	w.shown.Store(current)
	w.close()
}

// close closes the connections, each when its calls are done. The wire stays usable; it makes new
// ones.
func (w *wire) close() {
	w.mu.Lock()
	peers := w.peers
	w.peers = map[string]*peer{}
	w.closes++
	w.mu.Unlock()
	for _, p := range peers {
		for _, c := range p.conns {
			drain(c)
		}
	}
	// The old one closes those with calls, too, since nobody asks it for one any more.
	w.http1.Swap(w.http1.Load().Clone()).CloseIdleConnections()
}
