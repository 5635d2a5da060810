// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// gather answers when n calls are there at the same time, and never before.
func gather(n int) http.Handler {
	var (
		mu      sync.Mutex
		there   int
		allHere = make(chan struct{})
	)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if there++; there == n {
			close(allHere)
		}
		mu.Unlock()
		select {
		case <-allHere:
			webhooktest.Allow().ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// However many calls find no connection, and however many webhooks of however many plugins point at
// the backend: one handshake.
func TestOneHandshake(t *testing.T) {
	leakFree(t)
	// the second is more than a client may assume before the server has spoken
	for _, calls := range []int{100, 240} {
		server := webhooktest.New(t, gather(calls))
		var clients []*backend.Client
		for range 2 {
			pool := newPool(t, backend.Config{})
			for _, path := range []string{"/mutate", "/validate", "/validate"} {
				clients = append(clients, newClient(t, pool, server.ClientConfig(path)))
			}
		}
		if err := parallel(clients, calls); err != nil {
			t.Fatal(err)
		}
		if server.Handshakes() != 1 || server.Connections() != 1 || server.Calls() != calls {
			t.Errorf("%d handshakes, %d connections for %d calls", server.Handshakes(), server.Connections(),
				server.Calls())
		}
		server.SetHandler(webhooktest.Allow())
		if err := parallel(clients, calls); err != nil {
			t.Fatal(err)
		}
		if server.Handshakes() != 1 {
			t.Errorf("%d handshakes for calls to a known backend", server.Handshakes())
		}
	}
}

// A backend that takes few requests at a time on a connection gets as many connections as the calls
// need, and no more.
func TestMaxStreams(t *testing.T) {
	leakFree(t)
	server := webhooktest.New(t, gather(40), webhooktest.MaxStreams(10))
	if err := parallel([]*backend.Client{clientOf(t, server)}, 40); err != nil {
		t.Fatal(err)
	}
	if server.Handshakes() != 4 {
		t.Errorf("%d handshakes for 40 calls, 10 on a connection", server.Handshakes())
	}
}

// An HTTP/1.1 backend has a connection for each call, and they are kept.
func TestHTTP1KeepsConnections(t *testing.T) {
	leakFree(t)
	const calls = 100
	server := webhooktest.New(t, gather(calls), webhooktest.HTTP1())
	clients := []*backend.Client{clientOf(t, server)}
	if err := parallel(clients, calls); err != nil {
		t.Fatal(err)
	}
	handshakes := server.Handshakes()
	if handshakes > calls+1 {
		t.Errorf("%d handshakes for %d calls; one more is to learn the protocol", handshakes, calls)
	}
	server.SetHandler(gather(calls))
	if err := parallel(clients, calls); err != nil {
		t.Fatal(err)
	}
	if server.Handshakes() != handshakes {
		t.Errorf("%d more handshakes for the same calls again", server.Handshakes()-handshakes)
	}
}

// A backend crashes in the midst of a hundred calls, and comes back: those calls fail, all later
// ones are answered, after one handshake. It may come back with the other protocol.
func TestCrash(t *testing.T) {
	leakFree(t)
	const calls = 100
	server := webhooktest.New(t, webhooktest.Allow())
	clients := []*backend.Client{clientOf(t, server)}
	post(t, clients[0])
	for range 3 {
		server.SetHandler(webhooktest.Hang())
		before := server.Calls()
		failed := make(chan error)
		for range calls {
			go func() {
				_, err := clients[0].Post(context.Background(), review, 30*time.Second)
				failed <- err
			}()
		}
		eventually(t, "all calls at the backend", func() bool { return server.Calls() == before+calls })
		server.Stop()
		for range calls {
			if err := <-failed; err == nil {
				t.Error("a call succeeded that nobody answered")
			}
		}
		if _, err := clients[0].Post(context.Background(), review, 30*time.Second); err == nil {
			t.Error("a call succeeded while nobody listened")
		}
		server.SetHandler(webhooktest.Allow())
		server.Restart()
		handshakes := server.Handshakes()
		if err := parallel(clients, calls); err != nil {
			t.Fatal(err)
		}
		if n := server.Handshakes() - handshakes; n != 1 {
			t.Errorf("%d handshakes after a restart", n)
		}
	}
}

// A backend that says goodbye loses no call: those that it has are answered, others go to what
// listens next.
func TestGracefulRestart(t *testing.T) {
	leakFree(t)
	for name, options := range map[string][]webhooktest.Option{"h2": nil, "http1": {webhooktest.HTTP1()}} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-release
				webhooktest.Allow().ServeHTTP(w, r)
			}), options...)
			clients := []*backend.Client{clientOf(t, server)}
			answered := make(chan error)
			go func() { answered <- parallel(clients, 20) }()
			eventually(t, "20 calls at the backend", func() bool { return server.Calls() == 20 })
			stopped := make(chan error)
			go func() { stopped <- server.Shutdown(context.Background()) }()
			close(release)
			if err := <-answered; err != nil {
				t.Error(err)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			// HTTP/1.1 has no goodbye: a request that is sent on a connection that is just being closed
			// fails. Wait until the client has seen all of them closed.
			eventually(t, "no connection of HTTP/1.1", func() bool {
				return !slices.ContainsFunc(network(), func(stack string) bool {
					return strings.Contains(stack, "persistConn).readLoop")
				})
			})
			server.Restart()
			if err := parallel(clients, 20); err != nil {
				t.Error(err)
			}
		})
	}
}

// The certificate is rotated while calls are made: no call fails, and new connections are made with
// the new one.
func TestServingCertificateRotated(t *testing.T) {
	leakFree(t)
	server := webhooktest.New(t, webhooktest.Allow())
	clients := []*backend.Client{clientOf(t, server)}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					post(t, clients[0])
				}
			}
		})
	}
	for range 5 {
		before := server.Calls()
		server.Rotate()
		eventually(t, "calls after the rotation", func() bool { return server.Calls() > before+20 })
	}
	close(done)
	wg.Wait()
	if err := server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	post(t, clients[0])
}

// Connections of clients that nobody uses are closed; those that another pool uses, too, or that
// have calls, are not.
func TestRetain(t *testing.T) {
	leakFree(t)
	for name, options := range map[string][]webhooktest.Option{"h2": nil, "http1": {webhooktest.HTTP1()}} {
		t.Run(name, func(t *testing.T) {
			server := webhooktest.New(t, webhooktest.Allow(), options...)
			one, other := newPool(t, backend.Config{}), newPool(t, backend.Config{})
			a, b, c := newClient(t, one, server.ClientConfig("/a")), newClient(t, one, server.ClientConfig("/b")),
				newClient(t, other, server.ClientConfig("/c"))
			one.Retain([]*backend.Client{a, b})
			other.Retain([]*backend.Client{c})
			post(t, a)
			eventually(t, "one connection", func() bool { return server.Connections() == 1 })
			handshakes := server.Handshakes()

			one.Retain([]*backend.Client{b})
			post(t, b)
			one.Retain(nil)
			post(t, c)
			if server.Handshakes() != handshakes {
				t.Error("a connection was closed that is in use")
			}

			release := make(chan struct{})
			server.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-release
				webhooktest.Allow().ServeHTTP(w, r)
			}))
			before := server.Calls()
			answered := make(chan error)
			go func() {
				_, err := c.Post(context.Background(), review, 30*time.Second)
				answered <- err
			}()
			eventually(t, "the call at the backend", func() bool { return server.Calls() > before })
			other.Retain(nil)
			close(release)
			if err := <-answered; err != nil {
				t.Errorf("a call that was under way: %v", err)
			}
			eventually(t, "no connection", func() bool { return server.Connections() == 0 })

			// A request that began with an old configuration still gets its answer.
			post(t, c)
			// And a new client makes a new start.
			post(t, newClient(t, other, server.ClientConfig("/")))
			other.Retain(nil)
		})
	}
}

// Backends with different authorities don't share connections, though they have the same address.
func TestAuthoritiesAreApart(t *testing.T) {
	leakFree(t)
	server := webhooktest.New(t, webhooktest.Allow())
	pool := newPool(t, backend.Config{})
	post(t, newClient(t, pool, server.ClientConfig("/")))
	cc := server.ClientConfig("/")
	cc.CABundle = webhooktest.NewAuthority(t).PEM()
	if _, err := newClient(t, pool, cc).Post(context.Background(), review, 10*time.Second); err == nil {
		t.Error("a server was trusted that the caBundle doesn't prove")
	}
	cc.CABundle = nil // the system's
	if _, err := newClient(t, pool, cc).Post(context.Background(), review, 10*time.Second); err == nil {
		t.Error("a server was trusted that the system's authorities don't prove")
	}
}

// Connections go when calls are given up, and nothing stays of them.
func TestGivenUpCallsLeaveNothing(t *testing.T) {
	leakFree(t)
	for name, options := range map[string][]webhooktest.Option{"h2": nil, "http1": {webhooktest.HTTP1()}} {
		t.Run(name, func(t *testing.T) {
			server := webhooktest.New(t, webhooktest.Hang(), options...)
			client := clientOf(t, server)
			ctx, cancel := context.WithCancel(context.Background())
			failed := make(chan error)
			const calls = 100
			for range calls {
				go func() {
					_, err := client.Post(ctx, review, 30*time.Second)
					failed <- err
				}()
			}
			eventually(t, "all calls at the backend", func() bool { return server.Calls() == calls })
			cancel()
			for range calls {
				if err := <-failed; err == nil {
					t.Error("no error")
				}
			}
			eventually(t, "at most one connection", func() bool { return server.Connections() <= 1 })
			server.SetHandler(webhooktest.Allow())
			post(t, client)
		})
	}
}
