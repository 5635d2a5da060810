// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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
	// longestCall is the longest time that an API server waits for a webhook: timeoutSeconds is 1 to
	// 30.
	longestCall = 30 * time.Second
	// idleTimeout is longer than the 90 seconds for which API servers keep an unused connection. So
	// they close it, and no call gets lost because it is sent when this side closes.
	idleTimeout = 2 * time.Minute
	// headerTimeout bounds the time of a handshake and of a header. API servers send both at once.
	headerTimeout = 5 * time.Second
	// These bound the memory of a connection before a handler reads: the bytes of a header, which has
	// room for a token of 16 KiB, the unread bytes of bodies, and the calls. For more calls at a time,
	// API servers open another connection. 64 KiB is the least of HTTP/2.
	maxHeader, maxUnread, maxCalls = 32 << 10, 64 << 10, 100
)

// A Server serves webhooks with TLS.
type Server struct {
	// Address is the address for Run, in the form that net.Listen takes: ":8443", "127.0.0.1:8443".
	Address string

	// Handler serves the webhooks: it is a Handler, or an http.ServeMux with several at their paths.
	Handler http.Handler

	// CertFile and KeyFile name PEM files: the server's certificate with its chain, and its key. API
	// servers verify the certificate by the webhook's caBundle.
	CertFile, KeyFile string

	// GetCertificate, if it is set, returns the server's certificate for each connection, instead of
	// CertFile and KeyFile.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// ClientCAFile, if it is set, names a PEM file with certificate authorities. Then only clients
	// with a certificate from one of them may call. API servers show a certificate if the
	// kubeConfigFile of their WebhookAdmissionConfiguration says so. A kubelet's probes never do.
	ClientCAFile string

	// Wrap, if it is set, returns the handler that gets every request. It may pass requests on to next,
	// which refuses clients by ClientCAFile and calls Handler. So it can bound what strangers take.
	Wrap func(next http.Handler) http.Handler

	// OpenPaths lists the paths for which a client needs no certificate, such as "/readyz". It needs
	// ClientCAFile. At other paths, a client without a certificate then gets status 403 instead of a
	// failed handshake. It isn't 401, as API servers don't repeat the text of that.
	OpenPaths []string

	// ClientNames, if it isn't empty, lists the common names of the clients that may call. It needs
	// ClientCAFile.
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

// Serve serves on a listener until ctx is done, and closes it. It answers the calls that are under way
// before it returns nil. After 30 seconds, when no API server waits any more, it closes the remaining
// connections and returns an error.
//
// Serve reads the files for each new connection, so that a certificate may be renewed while the server
// runs. If they can't be read, or the certificate and the key don't match, it uses the previous ones
// and logs that. When Serve is called, the files must be valid.
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
	handler := s.authorizingHandler()
	if s.Wrap != nil {
		handler = s.Wrap(handler)
	}
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         &tls.Config{GetConfigForClient: certificates.config},
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       longestCall,
		// It begins at the end of the header, and includes reading the body.
		WriteTimeout:   2 * longestCall,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxCalls, MaxReceiveBufferPerConnection: maxUnread,
			MaxReceiveBufferPerStream: maxUnread},
		ErrorLog: log.New(&connectionLog{}, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		server.Close() // it closes the connections
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

// shutDown ends a server after it has answered the calls that are under way. A new HTTP/2 connection
// may miss that the server ends, and, if it has no call, hold it up (https://go.dev/issue/81153). So
// shutDown repeats Shutdown once a second.
func shutDown(ctx context.Context, server *http.Server) error {
	for {
		second, cancel := context.WithTimeout(ctx, time.Second)
		err := server.Shutdown(second)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// authorizingHandler returns a handler that admits clients with one of the names, and all clients at
// open paths. It refuses the others in HTTP, whose text an API server repeats to its client. Of a
// failed handshake the client would read only "bad certificate".
func (s *Server) authorizingHandler() http.Handler {
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
