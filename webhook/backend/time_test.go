// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"gatehouse.dev/internal/webhooktest"
)

// What takes minutes is tested in a bubble where time passes at once, over connections in memory.

// maxTimeout is the longest timeout that a webhook can have.
const maxTimeout = 30 * time.Second

// memory is a backend in memory, at https://backend.example.
type memory struct {
	authority *webhooktest.Authority
	conns     chan net.Conn
	closed    chan struct{}
	lost      atomic.Bool // what is sent gets lost
	http1     atomic.Bool
	hesitates atomic.Int64 // for how long it looks at who a client is

	mu         sync.Mutex
	open       []net.Conn
	handshakes []string // the names of the clients
	requests   []*http.Request
}

func newMemory(t *testing.T) *memory {
	m := &memory{authority: webhooktest.NewAuthority(t), conns: make(chan net.Conn), closed: make(chan struct{})}
	certificate := m.authority.Serving(time.Now().Add(24*time.Hour), "backend.example")
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(m.authority.PEM())
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    clients,
		NextProtos:   []string{"h2", "http/1.1"},
		VerifyConnection: func(state tls.ConnectionState) error {
			name := "nobody"
			if len(state.PeerCertificates) > 0 {
				name = state.PeerCertificates[0].Subject.CommonName
			}
			time.Sleep(time.Duration(m.hesitates.Load()))
			m.mu.Lock()
			defer m.mu.Unlock()
			m.handshakes = append(m.handshakes, name)
			return nil
		},
	}
	one := config.Clone()
	one.NextProtos = []string{"http/1.1"}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if m.http1.Load() {
			return one, nil
		}
		return nil, nil
	}
	server := &http.Server{
		TLSConfig: config,
		ErrorLog:  log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m.mu.Lock()
			m.requests = append(m.requests, r)
			m.mu.Unlock()
			switch r.URL.Path {
			case "/slow":
				time.Sleep(25 * time.Second)
			case "/fail":
				w.WriteHeader(http.StatusInternalServerError)
			case "/break":
				panic(http.ErrAbortHandler)
			case "/garbage":
				_, _ = io.WriteString(w, "no JSON ")
			}
			_, _ = io.WriteString(w, "{}")
		}),
	}
	go func() { _ = server.ServeTLS(m, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return m
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	close(m.closed)
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{} }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case m.conns <- &lossy{there, m}:
		m.mu.Lock()
		m.open = append(m.open, here)
		m.mu.Unlock()
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// breakConnections ends all connections.
func (m *memory) breakConnections() {
	m.mu.Lock()
	for _, c := range m.open {
		_ = c.Close()
	}
	m.open = nil
	m.mu.Unlock()
	synctest.Wait()
}

type lossy struct {
	net.Conn
	m *memory
}

func (c *lossy) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.m.lost.Load() {
			return n, err
		}
	}
}

func (c *lossy) Write(b []byte) (int, error) {
	if c.m.lost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// client is a client of m, with the user of a kubeconfig.
func (m *memory) client(t *testing.T, path, user string) *Client {
	t.Helper()
	file := ""
	if user != "" {
		file = filepath.Join(t.TempDir(), "kubeconfig")
		put(t, file, "apiVersion: v1\nkind: Config\nusers:\n- name: '*'\n  user: "+user+"\n")
	}
	pool, err := NewPool(Config{KubeConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Retain(nil) })
	client, err := pool.Client(admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://backend.example" +
		path), CABundle: m.authority.PEM()})
	if err != nil {
		t.Fatal(err)
	}
	client.conns.dialTCP = m.dial
	return client
}

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// requestCount returns how many requests have arrived.
func (m *memory) requestCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.handshakes)
}

// anything is a body that nobody reads.
var anything = [][]byte{[]byte("{}")}

func mustPost(t *testing.T, client *Client) {
	t.Helper()
	if _, err := client.Post(context.Background(), anything, maxTimeout); err != nil {
		t.Fatal(err)
	}
}

func TestIdleConnectionsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		client := m.client(t, "/", "")
		for _, test := range []struct {
			after      time.Duration
			handshakes int
		}{{0, 1}, {idleTimeout - time.Second, 1}, {idleTimeout - time.Second, 1}, {idleTimeout + time.Second, 2}} {
			time.Sleep(test.after)
			mustPost(t, client)
			if m.count() != test.handshakes {
				t.Errorf("%d handshakes, want %d", m.count(), test.handshakes)
			}
		}
		time.Sleep(idleTimeout + time.Second)
		synctest.Wait()
		// A new address is remembered instead of those whose connections are closed.
		client.conns.peer("other.example:443")
		if len(client.conns.peers) != 1 {
			t.Errorf("%d addresses are remembered", len(client.conns.peers))
		}
	})
}

// The machine of a backend is gone without a word: calls fail at their deadlines only until a ping
// has stayed unanswered.
func TestLostBackendIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		client := m.client(t, "/", "")
		mustPost(t, client)
		m.lost.Store(true)
		began := time.Now()
		for {
			// A call is under way when the connection is given up: no deadline is at a full second.
			_, err := client.Post(context.Background(), anything, 1300*time.Millisecond)
			if err == nil {
				t.Fatal("a lost call was answered")
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				break // the connection was given up
			}
			if time.Since(began) > pingAfter+pingTimeout+2*time.Second {
				t.Fatalf("after %v still calling into the void", time.Since(began))
			}
		}
		m.lost.Store(false)
		mustPost(t, client)
		if m.count() != 2 {
			t.Errorf("%d handshakes", m.count())
		}
	})
}

// A server that says nothing in the handshake is given up before the call's deadline. A call that gives
// up before leaves the dial to others.
func TestHangingHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		client := m.client(t, "/", "")
		m.lost.Store(true)
		_, err := client.Post(context.Background(), anything, maxTimeout)
		if err == nil || !strings.HasSuffix(err.Error(), ": net/http: TLS handshake timeout") {
			t.Errorf("error %v", err)
		}
		for range 3 {
			began := time.Now()
			if _, err := client.Post(context.Background(), anything, time.Second); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %v", took)
			}
		}
		if p := client.conns.peers["backend.example:443"]; p == nil || p.dial == nil {
			t.Error("nobody dials")
		}
		m.lost.Store(false)
		mustPost(t, client)
	})
}

// A backend that was out of reach answers at once when it is back: calls don't wait for what was
// begun before, though there was always somebody who did.
func TestBackendThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		client := m.client(t, "/", "")
		var out atomic.Bool
		client.conns.dialTCP = func(ctx context.Context, network, address string) (net.Conn, error) {
			if out.Load() {
				<-ctx.Done() // as packets that get lost
				return nil, ctx.Err()
			}
			return m.dial(ctx, network, address)
		}
		out.Store(true)
		var calls sync.WaitGroup
		for range 32 {
			calls.Go(func() { _, _ = client.Post(context.Background(), anything, 10*time.Second) })
			time.Sleep(500 * time.Millisecond)
		}
		out.Store(false)
		time.Sleep(freshDial)
		if _, err := client.Post(context.Background(), anything, time.Second); err != nil {
			t.Error(err)
		}
		calls.Wait()
		mustPost(t, client)
		if m.count() != 1 {
			t.Errorf("%d handshakes", m.count())
		}
	})
}

// What a backend speaks is asked again after a while.
func TestProtocolIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		client := m.client(t, "/", "")
		m.http1.Store(true)
		for _, test := range []struct {
			after time.Duration
			http1 bool
			proto string
		}{
			{0, true, "HTTP/1.1"},
			{http1Remembered - time.Second, false, "HTTP/1.1"}, // it could do better by now
			{2 * time.Second, false, "HTTP/2.0"},
			{idleTimeout + time.Second, true, "HTTP/1.1"}, // and fell back
			{http1Remembered + time.Second, true, "HTTP/1.1"},
		} {
			time.Sleep(test.after)
			m.http1.Store(test.http1)
			mustPost(t, client)
			if got := m.requests[len(m.requests)-1].Proto; got != test.proto {
				t.Errorf("%v later spoke %s, want %s", test.after, got, test.proto)
			}
		}
	})
}

func TestTokenFileRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		file := filepath.Join(t.TempDir(), "token")
		put(t, file, "first")
		client := m.client(t, "/", "{tokenFile: "+file+"}")
		mustPost(t, client)
		put(t, file, "second")
		time.Sleep(2 * time.Minute)
		mustPost(t, client)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		mustPost(t, client)
		var got []string
		for _, r := range m.requests {
			got = append(got, r.Header.Get("Authorization"))
		}
		if want := "Bearer first, Bearer second, Bearer second"; strings.Join(got, ", ") != want {
			t.Errorf("sent %s, want %s", strings.Join(got, ", "), want)
		}
	})
}

// A new client certificate is shown to backends that are called all the time, too, and no call is
// lost by it.
func TestClientCertificateRotated(t *testing.T) {
	for _, protocol := range []string{"h2", "http1"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t)
				m.http1.Store(protocol == "http1")
				dir := t.TempDir()
				rotate := func(user string) {
					cert, key := m.authority.Client(user)
					put(t, filepath.Join(dir, "crt"), string(cert))
					put(t, filepath.Join(dir, "key"), string(key))
				}
				rotate("first")
				user := "{client-certificate: " + dir + "/crt, client-key: " + dir + "/key}"
				client, slow := m.client(t, "/", user), m.client(t, "/slow", user)
				if client.conns != slow.conns {
					t.Fatal("not on the same connections")
				}
				mustPost(t, client)
				time.Sleep(certificateInterval - 10*time.Second)
				answered := make(chan error)
				go func() {
					_, err := slow.Post(context.Background(), anything, maxTimeout)
					answered <- err
				}()
				synctest.Wait()
				rotate("second")
				for range 3 { // in the midst of the slow call, and after it
					time.Sleep(certificateInterval / 4)
					mustPost(t, client)
				}
				if err := <-answered; err != nil {
					t.Errorf("a call under way: %v", err)
				}
				if last := m.handshakes[len(m.handshakes)-1]; last != "second" {
					t.Errorf("handshakes by %v", m.handshakes)
				}
				var names []string
				for _, r := range m.requests {
					names = append(names, r.TLS.PeerCertificates[0].Subject.CommonName)
				}
				if got := strings.Join(names, " "); got != "first first second second second" {
					t.Errorf("called as %s", got)
				}
				// Files that can't be read leave what works.
				put(t, filepath.Join(dir, "crt"), "")
				count := m.count()
				for range 5 {
					time.Sleep(certificateInterval / 2)
					mustPost(t, client)
				}
				if m.count() != count {
					t.Error("connections were closed for files that can't be read")
				}
			})
		})
	}
}

// A connection that was being made with the old certificate while the new one was noticed is not
// used.
func TestClientCertificateRotatedInHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		dir := t.TempDir()
		rotate := func(user string) {
			cert, key := m.authority.Client(user)
			put(t, filepath.Join(dir, "crt"), string(cert))
			put(t, filepath.Join(dir, "key"), string(key))
		}
		rotate("first")
		client := m.client(t, "/", "{client-certificate: "+dir+"/crt, client-key: "+dir+"/key}")
		m.hesitates.Store(int64(3 * time.Second))
		time.Sleep(certificateInterval - time.Second)
		var calls sync.WaitGroup
		call := func() {
			if _, err := client.Post(context.Background(), anything, maxTimeout); err != nil {
				t.Error(err)
			}
		}
		calls.Go(call)
		synctest.Wait()
		rotate("second")
		time.Sleep(2 * time.Second)
		calls.Go(call)
		calls.Wait()
		mustPost(t, client)
		for _, r := range m.requests {
			if name := r.TLS.PeerCertificates[0].Subject.CommonName; name != "second" {
				t.Errorf("called as %s", name)
			}
		}
		if got := strings.Join(m.handshakes, " "); got != "first second" {
			t.Errorf("handshakes by %s", got)
		}
	})
}
