// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooktest

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// TB has the methods of a *testing.T, *testing.B or *testing.F that this package uses.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// An Option configures a server before its start.
type Option func(*Server)

// HTTP1 makes a server that speaks HTTP/1.1 only. Others speak HTTP/2 as well.
func HTTP1() Option { return func(s *Server) { s.http1 = true } }

// WantClientCertificate makes a server that talks only to clients with a certificate of its
// authority.
func WantClientCertificate() Option { return func(s *Server) { s.clientCertificate = true } }

// Names adds names to the serving certificate, besides 127.0.0.1 and localhost. An example is
// "<service>.<namespace>.svc".
func Names(names ...string) Option {
	return func(s *Server) { s.hosts = append(s.hosts, names...) }
}

// WithAuthority makes a server whose certificates are signed by a. Other servers have their own
// authority.
func WithAuthority(a *Authority) Option { return func(s *Server) { s.Authority = a } }

// MaxStreams bounds the requests that the server takes at a time on one HTTP/2 connection. Clients obey
// the bound. Without it the bound is 250.
func MaxStreams(n int) Option { return func(s *Server) { s.maxStreams = n } }

// Server is a webhook backend. Methods that only return something are safe for concurrent use, the
// others aren't.
type Server struct {
	// Authority signed the serving certificate, and signs the client certificates that are wanted.
	Authority *Authority

	t                        TB
	http1, clientCertificate bool
	hosts                    []string
	maxStreams               int
	address                  string

	handler           atomic.Pointer[http.Handler]
	certificate       atomic.Pointer[tls.Certificate]
	frozen            atomic.Bool
	calls, handshakes atomic.Int64

	mu      sync.Mutex
	server  *http.Server  // nil while stopped
	served  chan struct{} // closed when server accepts no more
	open    map[*conn]struct{}
	clients []string
}

// New starts a server that answers with handler, and stops it at the test's end.
func New(t TB, handler http.Handler, options ...Option) *Server {
	t.Helper()
	s := &Server{
		t:       t,
		hosts:   []string{"127.0.0.1", "localhost"},
		address: "127.0.0.1:0",
		open:    map[*conn]struct{}{},
	}
	for _, option := range options {
		option(s)
	}
	if s.Authority == nil {
		s.Authority = NewAuthority(t)
	}
	s.SetHandler(handler)
	s.Rotate()
	s.start()
	t.Cleanup(s.Stop)
	return s
}

// Address returns the server's address, "127.0.0.1:<port>". Stop and Restart don't change it.
func (s *Server) Address() string { return s.address }

// URL returns the server's URL with the path.
func (s *Server) URL(path string) string { return "https://" + s.address + path }

// ClientConfig returns a configuration with the server's URL at the path, and its authority.
func (s *Server) ClientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	url := s.URL(path)
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: s.Authority.PEM()}
}

// SetHandler sets the handler of later calls.
func (s *Server) SetHandler(handler http.Handler) { s.handler.Store(&handler) }

// Rotate makes a new certificate of the same authority for later handshakes.
func (s *Server) Rotate() {
	s.t.Helper()
	s.UseCertificate(s.Authority.Serving(time.Now().Add(validity), s.hosts...))
}

// UseCertificate sets the certificate of later handshakes: an expired one, one for another host, one of
// another authority.
func (s *Server) UseCertificate(certificate tls.Certificate) { s.certificate.Store(&certificate) }

// Freeze cuts the server off as a pulled cable does: connections stay open, and new ones can be made,
// but all bytes get lost. Restart ends it.
func (s *Server) Freeze() { s.frozen.Store(true) }

// Calls returns how many requests have reached a handler.
func (s *Server) Calls() int { return int(s.calls.Load()) }

// Handshakes returns how many TLS handshakes the server has done its part of. A handshake that the
// client breaks off, for example since it doesn't trust the certificate, may count or not.
func (s *Server) Handshakes() int { return int(s.handshakes.Load()) }

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Clients returns the names in the client certificates of all handshakes so far, in order.
func (s *Server) Clients() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.clients)
}

// Stop closes the port and all connections, even those with calls, as a crash does. After that the
// address refuses connections, and no other server gets it.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.server
	s.server = nil
	s.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close()
	<-s.served
	s.mu.Lock()
	open := make([]*conn, 0, len(s.open))
	for c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // it was in a handshake
	}
}

// Shutdown ends the server in good order: it announces the end on each connection (HTTP/2's GOAWAY),
// answers the calls under way, and closes. If the context ends before the calls, it returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Shutdown(ctx)
	s.Stop()
	return err
}

// Restart stops the server, if it runs, and starts it at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.frozen.Store(false)
	s.start()
}

func (s *Server) start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatalf("webhook backend: %v", err)
	}
	if address := listener.Addr().String(); address != s.address { // the first start
		s.address = address
		Keep(s.t, listener)
	}
	config := &tls.Config{
		GetCertificate:   func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
		VerifyConnection: s.handshake,
	}
	if s.clientCertificate {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = s.Authority.pool()
	}
	server := &http.Server{
		Handler:   http.HandlerFunc(s.serve),
		TLSConfig: config,
		Protocols: &http.Protocols{},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: s.maxStreams},
		ErrorLog:  log.New(io.Discard, "", 0), // tests cause faults
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(!s.http1)
	served := make(chan struct{})
	s.mu.Lock()
	s.server, s.served = server, served
	s.mu.Unlock()
	go func() {
		defer close(served)
		_ = server.ServeTLS(trackingListener{listener, s}, "", "") // it returns when server is closed
	}()
}

func (s *Server) handshake(state tls.ConnectionState) error {
	s.handshakes.Add(1)
	if len(state.PeerCertificates) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clients = append(s.clients, state.PeerCertificates[0].Subject.CommonName)
	}
	return nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	(*s.handler.Load()).ServeHTTP(w, r)
}
