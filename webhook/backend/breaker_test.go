// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"gatehouse.dev/internal/timeshare"
)

// mortal is a backend in memory that can be down, or accept calls and not answer.
type mortal struct {
	*memory
	client *Client
	down   atomic.Bool
	dials  atomic.Int32
}

func newMortal(t *testing.T) *mortal {
	m := &mortal{memory: newMemory(t)}
	m.client = m.memory.client(t, "/", "")
	m.client.breaks = true
	m.client.conns.dialTCP = func(ctx context.Context, network, address string) (net.Conn, error) {
		m.dials.Add(1)
		if m.down.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return m.dial(ctx, network, address)
	}
	return m
}

// kill has the backend refuse connections, and breaks the one that there is.
func (m *mortal) kill() {
	m.down.Store(true)
	m.client.conns.mu.Lock()
	m.client.conns.close()
	m.client.conns.mu.Unlock()
}

// post makes a call, and reports whether it was refused because the breaker is open.
func (m *mortal) post(timeout time.Duration) (err error, refused bool) {
	_, err = m.client.Post(context.Background(), anything, timeout)
	var notCalled *NotCalledError
	return err, errors.As(err, &notCalled)
}

// open calls the backend until its breaker is open.
func (m *mortal) open(t *testing.T, timeout time.Duration) {
	t.Helper()
	for calls := 0; ; calls++ {
		err, refused := m.post(timeout)
		switch {
		case refused && calls < failuresToOpen:
			t.Fatalf("the breaker opened after %d calls", calls)
		case refused:
			return
		case err == nil:
			t.Fatal("the call was answered")
		case calls > 10:
			t.Fatal("the breaker stays closed")
		}
		time.Sleep(400 * time.Millisecond)
	}
}

// A backend that is down isn't called. It is connected to once a second, and the first connection that
// works has it called again, without a call that is lost.
func TestBreakerOfBackendThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMortal(t)
		mustPost(t, m.client)
		m.kill()
		m.open(t, maxTimeout)
		err, _ := m.post(maxTimeout)
		if !strings.Contains(err.Error(), "not called, as all calls since 2000-01-01T00:00:0") ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("the error is %v", err)
		}
		states := NotCalled()
		if len(states) != 1 || states[0].Server != "backend.example" || states[0].NotMade != 2 {
			t.Errorf("the backends that aren't called are %+v", states)
		}
		time.Sleep(time.Millisecond)
		before := m.dials.Load()
		began := time.Now()
		for time.Since(began) < time.Minute {
			if _, refused := m.post(maxTimeout); !refused {
				t.Error("it is called")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if probes := m.dials.Load() - before; probes != 60 {
			t.Errorf("it was connected to %d times in a minute", probes)
		}
		m.down.Store(false)
		time.Sleep(probeInterval)
		synctest.Wait()
		for range 10 {
			mustPost(t, m.client)
		}
		if states := NotCalled(); len(states) != 0 {
			t.Errorf("%+v aren't called", states)
		}
	})
}

// A backend that accepts connections and never answers is sent one review at a time, while no call
// waits for it. An answer has it called again.
func TestBreakerOfBackendThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMortal(t)
		m.client.url.Path = "/slow"
		m.open(t, 5*time.Second)
		time.Sleep(time.Millisecond)
		count := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.requests)
		}
		calls := count()
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
			start := time.Now()
			if _, refused := m.post(5 * time.Second); !refused || time.Since(start) != 0 {
				t.Fatal("a call waits for it")
			}
		}
		if reviews := count() - calls; reviews < 8 || reviews > 13 {
			t.Errorf("it was sent %d reviews in a minute, of 5 seconds each", reviews)
		}
		m.client.url.Path = "/"
		for tries := 0; ; tries++ {
			if err, refused := m.post(5 * time.Second); err == nil {
				break
			} else if !refused || tries > 20 {
				t.Fatalf("after %d calls: %v", tries, err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(maxTimeout) // for what still runs at the backend
	})
}

// Calls that their client or the request's time cuts short open no breaker. Those that the request can
// do without do, if it had all the time that a write can have.
func TestBreakerCountsTheBackendsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		timeout time.Duration // of the request
		ignored bool
		opens   bool
	}{
		"the request's time is over":        {timeout: 4 * time.Second},
		"a share of a client's timeout":     {timeout: 20 * time.Second, ignored: true},
		"a share of a request's whole time": {timeout: 34 * time.Second, ignored: true, opens: true},
		"the client goes away":              {timeout: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMortal(t)
				m.client.url.Path = "/slow"
				for range 5 {
					ctx := request.WithReceivedTimestamp(context.Background(), time.Now())
					var cancel context.CancelFunc
					if test.timeout > 0 {
						ctx, cancel = context.WithTimeout(ctx, test.timeout)
					} else {
						ctx, cancel = context.WithCancel(ctx)
						time.AfterFunc(5*time.Second, cancel)
					}
					if test.ignored {
						ctx = timeshare.Dispensable(ctx, timeshare.Sequential)
					}
					limited, stop := timeshare.Limit(ctx)
					if _, err := m.client.Post(limited, anything, maxTimeout); err == nil {
						t.Error("it was answered")
					}
					stop()
					cancel()
				}
				if open := len(NotCalled()) > 0; open != test.opens {
					t.Errorf("the breaker is open: %t", open)
				}
				m.client.conns.unused()
				time.Sleep(maxTimeout) // for what still runs at the backend
			})
		})
	}
}

// Answers are successes, whatever they say. So are those between failures.
func TestBreakerStaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMortal(t)
		for range 5 {
			for range failuresToOpen - 1 {
				m.kill()
				if err, refused := m.post(maxTimeout); err == nil || refused {
					t.Errorf("the error is %v", err)
				}
				time.Sleep(time.Second)
			}
			m.down.Store(false)
			mustPost(t, m.client)
		}
		// A backend that restarts breaks off many calls at once.
		m.kill()
		for range 100 {
			if err, refused := m.post(maxTimeout); err == nil || refused {
				t.Errorf("the error is %v", err)
			}
		}
		m.down.Store(false)
		mustPost(t, m.client)
	})
}

// The goroutine that connects ends when no configuration has the backend any more, or nobody calls it.
func TestBreakerEnds(t *testing.T) {
	for name, end := range map[string]func(*mortal){
		"unused":    func(m *mortal) { m.client.conns.unused() },
		"forgotten": func(*mortal) { time.Sleep(forgetAfter + time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMortal(t)
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
