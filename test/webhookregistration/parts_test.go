// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration_test

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// shifted is a clock that goes on as the real one does, but is off, by more or less as the test
// says.
type shifted struct {
	clock.RealClock
	mu     sync.Mutex
	off    time.Duration
	timers map[*timer]bool
}

// Now implements clock.Clock.
func (c *shifted) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *shifted) now() time.Time { return time.Now().Round(0).Add(c.off) }

// ahead has time pass.
func (c *shifted) ahead(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
	for t := range c.timers {
		if !c.now().Before(t.due) {
			t.fire()
		}
	}
}

// NewTimer implements clock.Clock.
func (c *shifted) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{clock: c, due: c.now().Add(d), c: make(chan time.Time, 1)}
	t.real = time.AfterFunc(d, t.fire)
	if c.timers == nil {
		c.timers = map[*timer]bool{}
	}
	c.timers[t] = true
	return t
}

type timer struct {
	clock.Timer
	clock *shifted
	real  *time.Timer
	due   time.Time
	c     chan time.Time
}

func (t *timer) fire() {
	select {
	case t.c <- t.due:
	default:
	}
}

// C implements clock.Timer.
func (t *timer) C() <-chan time.Time { return t.c }

// Stop implements clock.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	return t.real.Stop()
}

// listener is where a replica takes its connections, with TLS.
func (r *replica) listener() net.Listener {
	return tls.NewListener(&handed{replica: r, closed: make(chan struct{})},
		&tls.Config{GetCertificate: r.certificates.GetCertificate, SessionTicketsDisabled: true})
}

type handed struct {
	replica *replica
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case connection := <-h.replica.connections:
		return connection, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (*handed) Addr() net.Addr { return &net.TCPAddr{} }
