package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"time"
)

const (
	// longestCall is the time that an API server waits for a webhook at most: timeoutSeconds is 1
	// to 30.
	longestCall = 30 * time.Second
	// idle is longer than the 90 seconds for which API servers keep a connection that they don't
	// use. So it is they who close it, and no call is lost on its way to a connection that was just
	// closed here.
	idle = 2 * time.Minute
	// greeting is how long a handshake may take, and a header: API servers send both at once.
	greeting = 5 * time.Second
	// What a connection may take of memory before a handler reads it: a header, and what comes of
	// bodies. API servers open another connection for more calls at a time than maxCalls.
	maxHeader, maxUnread, maxCalls = 64 << 10, 256 << 10, 100
)

// A Server serves webhooks with TLS.
type Server struct {
	// Address is where Run listens, as net.Listen takes it: ":8443", "127.0.0.1:8443".
	Address string

	// Handler has the webhooks: a Handler, or an http.ServeMux with several at their paths.
	Handler http.Handler

	// CertFile and KeyFile name PEM files: the server's certificate with its chain, and its key. A
	// webhook's caBundle is what this certificate is verified with.
	CertFile, KeyFile string

	// GetCertificate, where it is set, is asked for the server's certificate at each connection, in
	// place of files.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// ClientCAFile, where it is set, names a PEM file with certificate authorities. Only clients
	// with a certificate from one of them may call then. (API servers show one where the
	// kubeConfigFile of their WebhookAdmissionConfiguration says so; a kubelet's probes never do.)
	ClientCAFile string

	// RequestClientCert, without ClientCAFile, has clients show a certificate if they have one. It
	// isn't verified: a Handler may do that, by the request's TLS.PeerCertificates.
	RequestClientCert bool

	// OpenPaths are those for which a client needs no certificate, such as "/readyz". They need
	// ClientCAFile. A client without one is told so in HTTP then, with status 403: of a 401 API
	// servers don't repeat the text.
	OpenPaths []string

	// ClientNames, where there are any, are the common names of the client certificates that may
	// call. They need ClientCAFile.
	ClientNames []string
}

// Run listens at Address and serves until ctx is done. See Serve.
func (s *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return err
	}
	return s.Serve(ctx, listener)
}

// Serve serves on a listener until ctx is done, and closes it. Calls that are under way then are
// answered before Serve returns nil. After 30 seconds, when no API server waits any more, it hangs
// up on those that are left and returns an error.
//
// The files are looked at for each new connection, so that a certificate may be replaced, as tools
// that renew certificates do, while the server runs. Where they can't be read, or a certificate and
// a key don't belong together (yet), connections are served with what was there before, and the log
// says so. When Serve is called they must be in order.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	if s.Handler == nil {
		return errors.New("webhook server: Handler: Required value")
	}
	if len(s.ClientNames) > 0 && s.ClientCAFile == "" {
		return errors.New("webhook server: ClientCAFile: Required value: ClientNames are names in certificates that " +
			"it verifies")
	}
	if len(s.OpenPaths) > 0 && s.ClientCAFile == "" {
		return errors.New("webhook server: ClientCAFile: Required value: without it no path of OpenPaths differs " +
			"from " +
			"the others")
	}
	certificates, err := newCertificates(s)
	if err != nil {
		return fmt.Errorf("webhook server: %w", err)
	}
	server := &http.Server{
		Handler:           s.authorized(),
		TLSConfig:         &tls.Config{GetConfigForClient: certificates.config},
		ReadHeaderTimeout: greeting,
		ReadTimeout:       longestCall,
		// from the header's end: reading the rest, then handling
		WriteTimeout:   2 * longestCall,
		IdleTimeout:    idle,
		MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxCalls, MaxReceiveBufferPerConnection: maxUnread,
			MaxReceiveBufferPerStream: maxUnread},
		ErrorLog: log.New(&connectionLog{}, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		server.Close() // the connections that there are
		return fmt.Errorf("webhook server: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestCall)
	defer cancel()
	err = shutDown(grace, server)
	<-ended
	if err != nil {
		server.Close()
		return fmt.Errorf("webhook server: calls were under way %s after the end: %w", longestCall, err)
	}
	return nil
}

// shutDown has a server answer the calls that are under way, and end. An HTTP/2 connection that is
// made at the very time isn't told of the end, and, without a call, holds it up
// (https://go.dev/issue/81153). So it is said once a second.
func shutDown(ctx context.Context, server *http.Server) error {
	for {
		told, cancel := context.WithTimeout(ctx, time.Second)
		err := server.Shutdown(told)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// authorized is the handler for clients with one of the names, and for all where a path is open.
// The others are refused in HTTP: an API server repeats the text to its client, where a failed
// handshake would say nothing but "bad certificate".
func (s *Server) authorized() http.Handler {
	if len(s.ClientNames) == 0 && len(s.OpenPaths) == 0 {
		return s.Handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case slices.Contains(s.OpenPaths, r.URL.Path):
		case len(r.TLS.VerifiedChains) == 0:
			http.Error(w, "a client certificate is required to call this webhook", http.StatusForbidden)
			return
		case len(s.ClientNames) > 0 && !slices.Contains(s.ClientNames, r.TLS.PeerCertificates[0].Subject.CommonName):
			http.Error(w, fmt.Sprintf("the client certificate is that of %q, who may not call this webhook",
				r.TLS.PeerCertificates[0].Subject.CommonName), http.StatusForbidden)
			return
		}
		s.Handler.ServeHTTP(w, r)
	})
}
