// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/server"
)

func allow(context.Context, *admissionv1.AdmissionRequest) server.Response { return server.Allowed() }

// files are a server's, in a directory of their own.
type files struct{ cert, key, clientCA string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")}
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serving is a new certificate and its key, in PEM form.
func serving(t *testing.T, authority *webhooktest.Authority) (cert, key []byte) {
	t.Helper()
	certificate := authority.Serving(time.Now().Add(time.Hour), "127.0.0.1")
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// start serves until the test ends.
func start(t *testing.T, s *server.Server) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// client trusts the authority, and makes a connection for each call.
func client(t *testing.T, authority *webhooktest.Authority, certificates ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	transport := &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates,
			ClientSessionCache: tls.NewLRUClientSessionCache(0)},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// call posts a review; text is the answer's body.
func call(t *testing.T, client *http.Client, address string) (response *http.Response, text string, err error) {
	t.Helper()
	response, err = client.Post("https://"+address+"/", "application/json", bytes.NewReader(body(t, "v1", podWeb)))
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response, string(data), err
}

func TestServe(t *testing.T) {
	authority, f := webhooktest.NewAuthority(t), newFiles(t)
	cert, key := serving(t, authority)
	write(t, f.cert, cert)
	write(t, f.key, key)
	address := start(t, &server.Server{Handler: server.Handler(allow), CertFile: f.cert, KeyFile: f.key})
	response, text, err := call(t, client(t, authority), address)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(text, `"allowed":true`) {
		t.Fatalf("%v %s %v", response, text, err)
	}
	if response.ProtoMajor != 2 {
		t.Errorf("%s, want HTTP/2, which API servers speak", response.Proto)
	}
}

// Connections get the certificate that is there, and the last good one while what is there is no
// good.
func TestCertificateIsReplaced(t *testing.T) {
	authority, f := webhooktest.NewAuthority(t), newFiles(t)
	cert1, key1 := serving(t, authority)
	cert2, key2 := serving(t, authority)
	write(t, f.cert, cert1)
	write(t, f.key, key1)
	address := start(t, &server.Server{Handler: server.Handler(allow), CertFile: f.cert, KeyFile: f.key})
	c := client(t, authority)
	shows := func(when string, want []byte) {
		t.Helper()
		response, _, err := call(t, c, address)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: response.TLS.PeerCertificates[0].Raw}); !bytes.Equal(got, want) {
			t.Errorf("%s: another certificate", when)
		}
	}
	shows("at the start", cert1)
	write(t, f.cert, cert2)
	shows("while the key is that of the old one", cert1)
	write(t, f.key, key2)
	shows("with its key", cert2)
	write(t, f.cert, []byte("no certificate"))
	shows("after garbage", cert2)
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	shows("without a key", cert2)
	write(t, f.cert, cert1)
	write(t, f.key, key1)
	shows("at the end", cert1)
}

func TestClientCertificates(t *testing.T) {
	ours, theirs, f := webhooktest.NewAuthority(t), webhooktest.NewAuthority(t), newFiles(t)
	cert, key := serving(t, ours)
	write(t, f.cert, cert)
	write(t, f.key, key)
	write(t, f.clientCA, ours.PEM())
	address := start(t, &server.Server{
		Handler: server.Handler(allow), CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.clientCA,
		ClientNames: []string{"apiserver", "other-apiserver"},
	})
	as := func(authority *webhooktest.Authority, user string) *http.Client {
		certificate, err := tls.X509KeyPair(authority.Client(user))
		if err != nil {
			t.Fatal(err)
		}
		return client(t, ours, certificate)
	}
	apiserver, mallory, stranger := as(ours, "apiserver"), as(ours, "mallory"), as(theirs, "apiserver")

	if response, text, err := call(t, apiserver, address); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the API server: %v %s %v", response, text, err)
	}
	response, text, err := call(t, mallory, address)
	if err != nil || response.StatusCode != http.StatusForbidden ||
		text != "the client certificate is that of \"mallory\", who may not call this webhook\n" {
		t.Errorf("another client: %v %s %v", response, text, err)
	}
	if _, _, err := call(t, stranger, address); err == nil {
		t.Error("a client of another authority is served")
	}
	if _, _, err := call(t, client(t, ours), address); err == nil {
		t.Error("a client without a certificate is served")
	}

	// The authority is replaced like certificates are, and who was admitted by the old one isn't
	// any more.
	write(t, f.clientCA, theirs.PEM())
	if response, text, err := call(t, stranger, address); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("a client of the new authority: %v %s %v", response, text, err)
	}
	if _, _, err := call(t, apiserver, address); err == nil {
		t.Error("a client of the old authority is served")
	}
}

// Where paths are open to all, who else has no certificate learns what it lacks.
func TestOpenPaths(t *testing.T) {
	ours, theirs, f := webhooktest.NewAuthority(t), webhooktest.NewAuthority(t), newFiles(t)
	cert, key := serving(t, ours)
	write(t, f.cert, cert)
	write(t, f.key, key)
	write(t, f.clientCA, ours.PEM())
	address := start(t, &server.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }),
		CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.clientCA, OpenPaths: []string{"/readyz"},
	})
	as := func(authority *webhooktest.Authority) *http.Client {
		certificate, err := tls.X509KeyPair(authority.Client("apiserver"))
		if err != nil {
			t.Fatal(err)
		}
		return client(t, ours, certificate)
	}
	const required = "403 a client certificate is required to call this webhook\n"
	for name, test := range map[string]struct {
		client *http.Client
		path   string
		want   string // empty for no answer
	}{
		"a probe":                      {client(t, ours), "/readyz", "200 /readyz"},
		"a review without certificate": {client(t, ours), "/mutate", required},
		"a path by way of an open one": {client(t, ours), "/readyz/../mutate", required},
		"a path below an open one":     {client(t, ours), "/readyz/", required},
		"a review with a certificate":  {as(ours), "/mutate", "200 /mutate"},
		"a probe with a certificate":   {as(ours), "/readyz", "200 /readyz"},
		"a certificate of somebody":    {as(theirs), "/mutate", ""},
		"a probe with one of somebody": {as(theirs), "/readyz", ""},
	} {
		got := ""
		if response, err := test.client.Get("https://" + address + test.path); err == nil {
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			got = fmt.Sprintf("%d %s%v", response.StatusCode, body, err)
			got = strings.TrimSuffix(got, "<nil>")
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// A wrong configuration ends the start.
func TestServeErrors(t *testing.T) {
	authority, f := webhooktest.NewAuthority(t), newFiles(t)
	cert, key := serving(t, authority)
	_, otherKey := serving(t, authority)
	write(t, f.cert, cert)
	write(t, f.key, key)
	write(t, f.clientCA, []byte("nothing"))
	other := filepath.Join(t.TempDir(), "other.key")
	write(t, other, otherKey)
	h := server.Handler(allow)
	for _, c := range []struct {
		server *server.Server
		want   string
	}{
		{&server.Server{CertFile: f.cert, KeyFile: f.key}, "webhook server: Handler: Required value"},
		{&server.Server{Handler: h, KeyFile: f.key}, "webhook server: CertFile: Required value"},
		{&server.Server{Handler: h, CertFile: f.cert, KeyFile: "gone"},
			"webhook server: KeyFile: open gone: no such file or directory"},
		{&server.Server{Handler: h, CertFile: f.cert, KeyFile: other}, "webhook server: CertFile " + f.cert +
			" with KeyFile " + other + ": tls: private key does not match public key"},
		{&server.Server{Handler: h, CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.clientCA},
			"webhook server: ClientCAFile " + f.clientCA + ": no certificates in PEM form"},
		{
			&server.Server{Handler: h, CertFile: f.cert, KeyFile: f.key, ClientNames: []string{"a"}},
			"webhook server: ClientCAFile: Required value: ClientNames are names in certificates that it verifies",
		},
		{
			&server.Server{Handler: h, CertFile: f.cert, KeyFile: f.key, OpenPaths: []string{"/"}},
			"webhook server: ClientCAFile: Required value: without it no path of OpenPaths differs from the others",
		},
		{&server.Server{Handler: h, CertFile: f.cert, KeyFile: f.key, Address: "127.0.0.1:http:"},
			"listen tcp: address 127.0.0.1:http:: too many colons in address"},
	} {
		if c.server.Address == "" {
			c.server.Address = "127.0.0.1:0"
		}
		if err := c.server.Run(t.Context()); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// When nobody can connect any more, nobody stays connected.
func TestListenerFails(t *testing.T) {
	authority, f := webhooktest.NewAuthority(t), newFiles(t)
	cert, key := serving(t, authority)
	write(t, f.cert, cert)
	write(t, f.key, key)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server.Server{Handler: server.Handler(allow), CertFile: f.cert, KeyFile: f.key}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), listener) }()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	listener.Close()
	if err := <-ended; err == nil || !strings.HasSuffix(err.Error(), "use of closed network connection") {
		t.Errorf("Serve: %v", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still there: %v", err)
	}
}

// memory is a listener with one connection, that tells when it is closed.
type memory struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newMemory() (*memory, net.Conn) {
	near, far := net.Pipe()
	m := &memory{connections: make(chan net.Conn, 1), closed: make(chan struct{})}
	m.connections <- far
	return m, near
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.connections:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{} }

// Calls that are under way at the end are answered, unless they take longer than any API server
// waits.
func TestEnd(t *testing.T) {
	log.SetOutput(io.Discard) // of net/http
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	authority, f := webhooktest.NewAuthority(t), newFiles(t)
	cert, key := serving(t, authority)
	write(t, f.cert, cert)
	write(t, f.key, key)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	now := time.Now() // the certificate's, before the bubble
	for _, c := range []struct {
		takes time.Duration
		want  string
	}{
		{20 * time.Second, ""},
		{40 * time.Second, "webhook server: calls were under way 30s after the end: context deadline exceeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			listener, conn := newMemory()
			ctx, end := context.WithCancel(t.Context())
			var cut error
			s := &server.Server{CertFile: f.cert, KeyFile: f.key,
				Handler: server.Handler(func(ctx context.Context, _ *admissionv1.AdmissionRequest) server.Response {
					end()
					<-listener.closed // nobody else can connect
					select {
					case <-time.After(c.takes):
					case <-ctx.Done():
						cut = ctx.Err()
					}
					return server.Allowed()
				})}
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx, listener) }()
			transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
				return tls.Client(conn,
					&tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Time: func() time.Time { return now }}), nil
			}}
			defer transport.CloseIdleConnections()
			_, text, err := call(t, &http.Client{Transport: transport}, "127.0.0.1")
			answered := err == nil && strings.Contains(text, `"allowed":true`)
			if err := <-ended; (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
				t.Errorf("Serve: %v, want %q", err, c.want)
			}
			synctest.Wait()
			if answered != (c.want == "") || (cut != nil) != (c.want != "") {
				t.Errorf("a call of %s: answered: %t (%v), its context: %v", c.takes, answered, err, cut)
			}
		})
	}
}

// A connection that is made at the end, and not used, doesn't hold it up.
func TestEndOfNewConnection(t *testing.T) {
	certificate := webhooktest.NewAuthority(t).Serving(time.Now().Add(time.Hour), "127.0.0.1")
	synctest.Test(t, func(t *testing.T) {
		listener, near := newMemory()
		ctx, end := context.WithCancel(t.Context())
		greeted, told := make(chan struct{}), make(chan struct{})
		s := &server.Server{Handler: server.Handler(allow),
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				close(greeted)
				<-told
				return &certificate, nil
			}}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, listener) }()
		conn := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		shaken := make(chan error, 1)
		go func() { shaken <- conn.Handshake() }()
		<-greeted
		end()
		synctest.Wait() // the connections that there are know of it
		close(told)
		if err := <-shaken; err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		const noSettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+noSettings); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
