// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// mortal is a backend in memory that can be down, or accept calls and not answer.
type mortal struct {
	*memory
	client *Client
	down   atomic.Bool
	dials  atomic.Int32
}

func newMortal(t *testing.T, protocol string) *mortal {
	m := &mortal{memory: newMemory(t)}
	m.http1.Store(protocol == "http1")
	m.client = m.memory.client(t, "/", "")
	m.client.conns.breaks = true
	m.client.conns.dialTCP = func(ctx context.Context, network, address string) (net.Conn, error) {
		m.dials.Add(1)
		if m.down.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return m.dial(ctx, network, address)
	}
	return m
}

// kill has the backend refuse connections, and breaks those that there are.
func (m *mortal) kill() {
	m.down.Store(true)
	m.breakConnections()
}

// post makes a call, and reports whether it was refused because the breaker is open.
func (m *mortal) post(timeout time.Duration) (err error, refused bool) {
	_, err = m.client.Post(context.Background(), anything, timeout)
	_, refused = errors.AsType[*NotCalledError](err)
	return err, refused
}

// open calls the backend until its breaker is open, and returns how long that took.
func (m *mortal) open(t *testing.T, timeout time.Duration) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		switch err, refused := m.post(timeout); {
		case refused:
			return time.Since(began)
		case err == nil:
			t.Fatal("the call was answered")
		case time.Since(began) > time.Minute:
			t.Fatal("the breaker stays closed")
		}
	}
}

// called waits until all backends are called again, which takes the time at most.
func called(t *testing.T, most time.Duration) {
	t.Helper()
	for began := time.Now(); len(NotCalled()) > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > most {
			t.Fatalf("%+v aren't called after %v", NotCalled(), most)
		}
	}
}

// An endpoint that refuses connections for a second isn't called. The server tries to connect once a
// second, and has it called by the first connection that works, without a call that is lost.
func TestBreaker(t *testing.T) {
	for _, protocol := range []string{"h2", "http1"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMortal(t, protocol)
				mustPost(t, m.client)
				m.kill()
				if took := m.open(t, maxTimeout); took < failingToOpen || took > 2*failingToOpen {
					t.Errorf("it isn't called after %v", took)
				}
				err, _ := m.post(maxTimeout)
				if !strings.Contains(err.Error(), "not asked, as no connection could be made since 2000-01-01T00:00:0") ||
					!strings.Contains(err.Error(), "connection refused") {
					t.Errorf("the error is %v", err)
				}
				states := NotCalled()
				if len(states) != 1 || states[0].Server != "backend.example" || states[0].NotMade != 2 {
					t.Errorf("the backends that aren't called are %+v", states)
				}
				time.Sleep(time.Millisecond)
				before, requests := m.dials.Load(), m.requestCount()
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
					if _, refused := m.post(maxTimeout); !refused {
						t.Error("it is called")
					}
				}
				if probes := m.dials.Load() - before; probes != 60 {
					t.Errorf("it was connected to %d times in a minute", probes)
				}
				m.down.Store(false)
				called(t, probeInterval)
				if n := m.requestCount(); n != requests {
					t.Errorf("it was sent %d requests while it wasn't called", n-requests)
				}
				for range 10 {
					mustPost(t, m.client)
				}
				if states := NotCalled(); len(states) != 0 {
					t.Errorf("%+v aren't called", states)
				}
			})
		})
	}
}

// Connections that hang open a breaker when they have had their time, however little time calls have.
// Connections that take long open none.
func TestBreakerOfSlowConnections(t *testing.T) {
	for _, protocol := range []string{"h2", "http1"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMortal(t, protocol)
				m.hesitates.Store(int64(handshakeTimeout - time.Second))
				if err, _ := m.post(100 * time.Millisecond); err == nil {
					t.Error("a call took less time than its connection")
				}
				var bystander sync.WaitGroup
				bystander.Go(func() { // another client has the time that a connection takes
					for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(400 * time.Millisecond) {
						if err, _ := m.post(maxTimeout); err != nil {
							t.Errorf("a client that waits for its answer: %v", err)
						}
					}
				})
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(400 * time.Millisecond) {
					if _, refused := m.post(100 * time.Millisecond); refused {
						t.Fatal("it isn't called")
					}
				}
				bystander.Wait()
				mustPost(t, m.client)
				m.breakConnections()
				m.lost.Store(true)
				if took := m.open(t, 100*time.Millisecond); took < handshakeTimeout || took > 2*handshakeTimeout {
					t.Errorf("it isn't called after %v", took)
				}
				m.lost.Store(false)
				m.hesitates.Store(0)
				called(t, probeTimeout+2*probeInterval)
				mustPost(t, m.client)
			})
		})
	}
}

// Nothing that happens to a call that has a connection opens a breaker, however long it goes on.
func TestBreakerStaysClosed(t *testing.T) {
	for name, path := range map[string]string{"timeouts": "/slow", "statuses": "/fail", "broken connections": "/break",
		"bad answers": "/garbage"} {
		for _, protocol := range []string{"h2", "http1"} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMortal(t, protocol)
					for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
						m.client.url.Path = path
						if err, refused := m.post(time.Second); refused || err == nil && path != "/garbage" {
							t.Fatalf("a call: %v", err)
						}
						m.client.url.Path = "/"
						mustPost(t, m.client)
					}
					if states := NotCalled(); len(states) != 0 {
						t.Errorf("%+v aren't called", states)
					}
					time.Sleep(maxTimeout) // for what still runs at the backend
				})
			})
		}
	}
}

// A backend that is down for less than a second, again and again, is always called.
func TestBreakerOfRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMortal(t, "h2")
		for range 5 {
			m.kill()
			for range 100 {
				if err, refused := m.post(maxTimeout); err == nil || refused {
					t.Errorf("the error is %v", err)
				}
			}
			time.Sleep(failingToOpen - time.Millisecond)
			m.down.Store(false)
			mustPost(t, m.client)
		}
	})
}

// The goroutine that connects ends when no configuration has the backend any more, or nobody calls it.
func TestBreakerEnds(t *testing.T) {
	for name, end := range map[string]func(*mortal){
		"unused": func(m *mortal) {
			m.client.conns.unused()
			m.client.conns.mu.Lock()
			defer m.client.conns.mu.Unlock()
			m.client.conns.close()
		},
		"forgotten": func(*mortal) { time.Sleep(forgetAfter + time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMortal(t, "h2")
				m.kill()
				m.open(t, maxTimeout)
				end(m)
				synctest.Wait()
				if states := NotCalled(); len(states) != 0 {
					t.Errorf("%+v aren't called", states)
				}
				dials := m.dials.Load()
				time.Sleep(time.Minute)
				if m.dials.Load() != dials {
					t.Error("it is still connected to")
				}
			})
		})
	}
}
