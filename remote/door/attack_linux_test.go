// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/webhook/server"
)

// Linux has all of 127.0.0.0/8, so that a test can call from several addresses.
const (
	attacker  = "127.0.0.2"
	bystander = "127.0.0.1"

	// within is how soon a bystander is to be answered.
	within = 20 * time.Second
	path   = "/validate"
	review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"%s}}`
	// post is the beginning of a review that claims to be large.
	post = "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" +
		"Content-Length: 7000000\r\n\r\n{"
)

// A house is a door that is open, with its server.
type house struct {
	*Door
	address   string
	authority *authority.Authority
	validity  authority.Validity
	// hold, if it isn't nil, is called for reviews of the namespace "hold".
	hold func(context.Context)
	// sent counts the connections of begin that have sent their text, or gave way.
	sent atomic.Int64
}

// build serves a door on a port of its own until the test ends.
func build(t *testing.T, configure ...func(*house, *server.Server)) *house {
	t.Helper()
	key, err := authority.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Door: New(), validity: authority.Validity{NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}}
	if h.authority, err = authority.New("test", key, h.validity); err != nil {
		t.Fatal(err)
	}
	pair := h.pair(t, func() ([]byte, []byte, error) {
		return h.authority.Serving("test", []string{bystander}, h.validity)
	})
	h.Open(map[string]http.Handler{path: server.Handler(func(ctx context.Context,
		r *admissionv1.AdmissionRequest) server.Response {
		if r.Namespace == "hold" {
			h.hold(ctx)
		}
		return server.Allowed()
	})})
	listener, err := net.Listen("tcp", bystander+":0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = listener.Addr().String()
	front := &server.Server{Handler: h, Wrap: h.Admit,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }}
	for _, f := range configure {
		f(h, front)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- front.Serve(ctx, h.Listen(listener)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

// withCertificates makes a server require certificates of the house's authority.
func withCertificates(t *testing.T) func(*house, *server.Server) {
	return func(h *house, s *server.Server) {
		s.ClientCAFile, s.OpenPaths = filepath.Join(t.TempDir(), "ca"), OpenPaths
		if err := os.WriteFile(s.ClientCAFile, h.authority.CertPEM(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *house) pair(t *testing.T, sign func() ([]byte, []byte, error)) *tls.Certificate {
	t.Helper()
	certPEM, keyPEM, err := sign()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// certificate returns a certificate of an API server.
func (h *house) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	return *h.pair(t, func() ([]byte, []byte, error) { return h.authority.Client("apiserver", nil, h.validity) })
}

// dialer dials from an address.
func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
}

// client returns a client that keeps its connections, as API servers do.
func (h *house) client(t *testing.T, from string, certificates ...tls.Certificate) *http.Client {
	transport := &http.Transport{ForceAttemptHTTP2: true, DialContext: dialer(from).DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: within}
}

// warm returns clients without a timeout that each have a connection already, which has room for a
// hundred requests. Without one Go's client opens a connection for each.
func (h *house) warm(t *testing.T, from string, number int) (clients []*http.Client) {
	t.Helper()
	for range number {
		client := h.client(t, from)
		client.Timeout = 0
		if code, err := h.get(client, "/livez"); err != nil || code != http.StatusOK {
			t.Fatalf("/livez: %d, %v", code, err)
		}
		clients = append(clients, client)
	}
	return clients
}

// ask posts a review with further fields of its request, and returns the status of the answer.
func (h *house) ask(client *http.Client, fields string) (int, error) {
	return status(client.Post("https://"+h.address+path, "application/json",
		strings.NewReader(fmt.Sprintf(review, fields))))
}

func (h *house) get(client *http.Client, path string) (int, error) {
	return status(client.Get("https://" + h.address + path))
}

func status(response *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// goesOn fails the test unless a bystander is answered: an API server that keeps its connection, one
// that makes a new one for each review, a kubelet and Prometheus.
func (h *house) goesOn(t *testing.T, from string, certificates ...tls.Certificate) {
	t.Helper()
	kept := h.client(t, from, certificates...)
	for range 10 {
		for what, client := range map[string]*http.Client{"kept": kept, "new": h.client(t, from, certificates...)} {
			if code, err := h.ask(client, ""); err != nil || code != http.StatusOK {
				t.Fatalf("a review on a %s connection: %d, %v", what, code, err)
			}
		}
		for _, path := range OpenPaths {
			client := h.client(t, from)
			if code, err := h.get(client, path); err != nil || code != http.StatusOK {
				t.Fatalf("%s: %d, %v", path, code, err)
			}
			client.CloseIdleConnections() // as a kubelet does
		}
	}
}

// dial opens a connection of an attacker, which the test closes at its end.
func (h *house) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := dialer(attacker).DialContext(t.Context(), "tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(1) // or as small as it can be
	return c
}

// begin sends a part of a request on a connection of its own. It may wait to be served.
func (h *house) begin(t *testing.T, text string) {
	t.Helper()
	c := tls.Client(h.dial(t), &tls.Config{InsecureSkipVerify: true})
	go func() {
		_, _ = io.WriteString(c, text) // it may give way
		h.sent.Add(1)
	}()
}

// held returns how many connections there are, and how many bytes the attacker holds.
func (h *house) held() (connections int, bytes int64) {
	h.connections.mu.Lock()
	defer h.connections.mu.Unlock()
	h.bytes.mu.Lock()
	defer h.bytes.mu.Unlock()
	return len(h.connections.open), h.bytes.held[addressOf(attacker+":1")]
}

// An attacker with more connections, bytes or reviews than the process takes keeps nobody out who has
// another address.
func TestAttacks(t *testing.T) {
	all := func(h *house) bool { n, _ := h.held(); return n == mostConnections }
	// On a slow machine the first handshakes are given up before the last begin.
	allOrEnded := func(h *house) bool { return all(h) || h.sent.Load() == 1100 }
	atOnce := func(*house) bool { return true }
	for name, test := range map[string]struct {
		times  int
		attack func(t *testing.T, h *house)
		begun  func(h *house) bool
	}{
		"connections that say nothing": {1536, func(t *testing.T, h *house) { h.dial(t) }, all},
		"idle connections": {1100, func(t *testing.T, h *house) {
			h.begin(t, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
		}, allOrEnded},
		"headers that don't end": {1100, func(t *testing.T, h *house) {
			h.begin(t, "POST "+path+" HTTP/1.1\r\nHost:"+strings.Repeat("a", 16<<10))
		}, allOrEnded},
		"bodies of one byte": {1100, func(t *testing.T, h *house) { h.begin(t, post) }, allOrEnded},
		"bodies elsewhere": {1100, func(t *testing.T, h *house) {
			h.begin(t, strings.Replace(post, path, "/healthz", 1))
		}, atOnce},
		"bodies of 2 MiB": {64, func(t *testing.T, h *house) {
			h.begin(t, post+strings.Repeat(" ", 2<<20))
		}, func(h *house) bool { _, bytes := h.held(); return bytes > mostBytes/2-4<<20 }},
		"answers that aren't read": {100, func(t *testing.T, h *house) {
			h.begin(t, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 1000))
		}, waits},
		"streams of one byte": {1, func(t *testing.T, h *house) {
			clients := h.warm(t, attacker, 40)
			for i := range 4000 {
				body, w := io.Pipe()
				go func() {
					_, _ = status(clients[i%len(clients)].Post("https://"+h.address+path, "application/json", body))
				}()
				go func() { _, _ = w.Write([]byte{'{'}) }()
				t.Cleanup(func() { w.CloseWithError(io.ErrUnexpectedEOF) })
			}
		}, func(h *house) bool { _, bytes := h.held(); return bytes > mostBytes/4 }},
		"whole reviews that take long": {1, func(t *testing.T, h *house) {
			h.holdAll(t, 2500, "")
		}, atOnce},
		"whole reviews of many objects": {1, func(t *testing.T, h *house) {
			h.holdAll(t, 100, `, "object": {"a": [`+strings.Repeat("{},", 15000)+`{}]}`)
		}, atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t)
			for range test.times {
				test.attack(t, h)
			}
			h.wait(t, test.begun)
			h.goesOn(t, bystander)
		})
	}
}

// wait waits until a house is in a state.
func (h *house) wait(t *testing.T, state func(*house) bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !state(h); time.Sleep(time.Millisecond) { // there is no event
		if time.Now().After(deadline) {
			connections, bytes := h.held()
			t.Fatalf("the attack doesn't begin: %d connections, %d bytes", connections, bytes)
		}
	}
}

// holdAll sends reviews of the attacker that aren't answered until the test ends. It returns when the
// attacker has all turns that it gets.
func (h *house) holdAll(t *testing.T, reviews int, fields string) {
	t.Helper()
	release := make(chan struct{})
	h.hold = func(context.Context) { <-release }
	clients := h.warm(t, attacker, (reviews+99)/100)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for i := range reviews {
		asking.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+h.address+path,
				strings.NewReader(fmt.Sprintf(review, `, "namespace": "hold"`+fields)))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			_, _ = status(clients[i%len(clients)].Do(r)) // it ends with the test
		})
	}
	t.Cleanup(func() {
		close(release)
		cancel()
		asking.Wait()
	})
	h.wait(t, waits)
}

// waits reports whether requests wait for their turn.
func waits(h *house) bool {
	h.work.mu.Lock()
	defer h.work.mu.Unlock()
	return len(h.work.waiting) > 0
}

// Strangers that fill all connections, at any number of addresses, keep out no caller that has shown a
// certificate, and idle connections no caller that has one to show.
func TestCertificates(t *testing.T) {
	h := build(t, withCertificates(t))
	certificate := h.certificate(t)
	kept := h.client(t, bystander, certificate)
	if code, err := h.ask(kept, ""); err != nil || code != http.StatusOK {
		t.Fatalf("a review: %d, %v", code, err)
	}
	for i := range 1536 {
		c, err := dialer(fmt.Sprintf("127.0.1.%d", i%250)).Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	if code, err := h.ask(&http.Client{Timeout: within, Transport: failsToDial(kept)}, ""); err != nil ||
		code != http.StatusOK {
		t.Errorf("a review on the connection that was there: %d, %v", code, err)
	}
	h.goesOn(t, bystander, certificate)
	if code, err := h.ask(h.client(t, attacker), ""); err != nil || code != http.StatusForbidden {
		t.Errorf("a stranger's review: %d, %v", code, err)
	}
}

// failsToDial returns the transport of a client, which makes no new connection any more.
func failsToDial(client *http.Client) *http.Transport {
	transport := client.Transport.(*http.Transport)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, fmt.Errorf("the connection is gone")
	}
	return transport
}

// A client may have a thousand reviews at a time, also if it has a connection for each.
func TestManyReviewsOfOneClient(t *testing.T) {
	h := build(t)
	// A server gives a handshake a few seconds, in which a busy machine doesn't make a thousand at once.
	clients := h.warm(t, bystander, 1000)
	var asking sync.WaitGroup
	for _, client := range clients {
		asking.Go(func() {
			if code, err := h.ask(client, ""); err != nil || code != http.StatusOK {
				t.Errorf("a review: %d, %v", code, err)
			}
		})
	}
	asking.Wait()
}

// A caller that wants more than its address leaves to others is told so.
func TestRefusals(t *testing.T) {
	h := build(t)
	client := h.client(t, attacker)
	address, most := addressOf(attacker+":1"), h.bytes.total/2
	if !h.bytes.take(address, most, atOnce) {
		t.Fatal("an address doesn't get half")
	}
	if code, err := h.get(client, "/livez"); err == nil {
		t.Errorf("without bytes: %d", code)
	}
	h.bytes.give(address, requestBytes+firstBytes)
	if code, err := h.ask(client, ""); err != nil || code != http.StatusTooManyRequests {
		t.Errorf("without bytes for the body: %d, %v", code, err)
	}
	h.bytes.give(address, most-requestBytes-firstBytes)
	if code, err := h.ask(client, `, "object": {"a": [`+strings.Repeat("{},", 30000)+`{}]}`); err != nil ||
		code != http.StatusRequestEntityTooLarge {
		t.Errorf("with too many objects: %d, %v", code, err)
	}
	h.goesOn(t, attacker)
}
