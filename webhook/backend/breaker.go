// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"gatehouse.dev/internal/timeshare"
)

const (
	// A breaker opens after failuresToOpen calls in a row have failed, if the first of them failed at
	// least failingToOpen ago: a backend that restarts breaks off many calls at once.
	failuresToOpen = 3
	failingToOpen  = time.Second

	// probeInterval is the time between probes, probeTimeout how long one may take.
	probeInterval = time.Second
	probeTimeout  = 5 * time.Second

	// shareToCount is how long a call must have taken to count if it was given up because the request
	// can do without it.
	shareToCount = time.Second

	// forgetAfter is how long a breaker is kept that no call has met.
	forgetAfter = 10 * time.Minute
)

// errTimeout is the cause of the end of a call that has taken the webhook's own timeout. Its text is
// that of the end of a deadline, since an http.Transport returns the cause.
var errTimeout = fmt.Errorf("%w", context.DeadlineExceeded)

// NotCalledError is the error of a call that wasn't made, because earlier ones to the backend failed.
type NotCalledError struct {
	Since time.Time // the time of the first failure
	Why   error     // the last failure
}

func (e *NotCalledError) Error() string {
	return fmt.Sprintf("not called, as all calls since %s have failed (%v); the server tries to connect every second",
		e.Since.UTC().Format(time.RFC3339), e.Why)
}

// breaker keeps calls from a backend that doesn't answer. Each address of a connPool has its own.
//
// It opens when calls fail in a row, because no connection can be made, the connection breaks, or
// the webhook's own timeout passes. An answer of any kind is a success. While it is open, calls fail
// at once, and a single goroutine finds out when the backend is back:
//
//   - It connects every second, with a TLS handshake. If that failed before and works now, the
//     breaker closes.
//   - If it works from the beginning, connections aren't what is wrong. Then the goroutine sends one
//     of the reviews that calls have at that time. No client waits for it. The breaker closes if it is
//     answered.
//
// If no call comes for ten minutes, the breaker closes.
type breaker struct {
	pool    *connPool
	address string
	// reviews takes a call's review when the goroutine waits for one.
	reviews chan sendFunc

	mu       sync.Mutex
	open     bool
	failures int       // in a row
	since    time.Time // of the first failure
	last     time.Time // of the last failure, or of the last call that met the open breaker
	why      error     // the last failure
	refused  int64     // calls since it opened
	probed   time.Time // of the last probe
	probe    error     // its error
}

// sendFunc sends a review whose answer nobody waits for, and reports whether there was an answer.
type sendFunc func(context.Context) bool

// isFailure reports whether the error of a call that began at start says something about the backend:
// not if the client or the request's time ended it. Otherwise clients could open a breaker for all.
func isFailure(ctx context.Context, start time.Time, err error) bool {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, context.Canceled):
		return false
	case cause == nil, cause == errTimeout:
		return true
	default:
		return timeshare.IsUsedUp(ctx) && timeshare.HadOwnTime(ctx) && time.Since(start) >= shareToCount
	}
}

// refuse returns the error of a call that isn't made. It offers the call's review as the one that
// finds out whether the backend is back.
func (b *breaker) refuse(send sendFunc) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused++
	b.last = time.Now()
	refusedTotal.WithLabelValues(b.pool.tls.ServerName, b.address).Inc()
	select {
	case b.reviews <- send:
	default:
	}
	return &NotCalledError{Since: b.since, Why: b.why}
}

// isOpen reports whether calls fail at once.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// succeeded notes a call that was answered.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		b.failures = 0
	}
}

// failed notes a call that began at start and failed.
func (b *breaker) failed(start time.Time, err error, timedOut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		return
	}
	b.last, b.why = time.Now(), err
	if b.failures++; b.failures == 1 {
		if b.since = b.last; timedOut {
			b.since = start
		}
	}
	if b.failures < failuresToOpen || b.last.Sub(b.since) < failingToOpen {
		return
	}
	b.open, b.refused, b.probed, b.probe = true, 0, time.Time{}, nil
	openCount.WithLabelValues(b.pool.tls.ServerName, b.address).Inc()
	openedTotal.WithLabelValues(b.pool.tls.ServerName, b.address).Inc()
	klog.Warningf("Webhook backend %s at %s isn't called any more until it is back: %d calls in a row failed since %s: %v",
		b.pool.tls.ServerName, b.address, b.failures, b.since.UTC().Format(time.RFC3339), err)
	go b.run(b.pool.inUse)
}

// run finds out when the backend is back, and closes the breaker then. It ends with ctx.
func (b *breaker) run(ctx context.Context) {
	defer b.close()
	wasDown := false
	for ctx.Err() == nil && !b.isForgotten() {
		next := time.After(probeInterval)
		err := b.pool.probe(ctx, b.address)
		b.mu.Lock()
		b.probed, b.probe = time.Now(), err
		b.mu.Unlock()
		if err == nil && wasDown {
			return
		}
		if err != nil {
			wasDown = true
			select {
			case <-next:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case send := <-b.reviews:
			if send(ctx) {
				return
			}
			select {
			case <-next:
			case <-ctx.Done():
			}
		case <-next:
		case <-ctx.Done():
		}
	}
}

// isForgotten reports whether no call has come for a long time.
func (b *breaker) isForgotten() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.last) > forgetAfter
}

func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.failures = false, 0
	openCount.WithLabelValues(b.pool.tls.ServerName, b.address).Dec()
	klog.Warningf("Webhook backend %s at %s is called again: it wasn't for %d calls since %s",
		b.pool.tls.ServerName, b.address, b.refused, b.since.UTC().Format(time.RFC3339))
}

// probe connects to address and verifies the server.
func (p *connPool) probe(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := p.handshake(ctx, address)
	if err != nil {
		return err
	}
	_ = conn.Close()
	return nil
}

// breaker returns the breaker of an address, nil if there is none and create isn't set.
func (p *connPool) breaker(address string, create bool) *breaker {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.breakers[address]
	if b != nil || !create {
		return b
	}
	// Endpoints come and go: forget those that are gone.
	for other, b := range p.breakers {
		if b.isForgotten() && !b.isOpen() {
			delete(p.breakers, other)
		}
	}
	b = &breaker{pool: p, address: address, reviews: make(chan sendFunc)}
	p.breakers[address] = b
	return b
}

// observe notes the result of a call to address.
func (c *Client) observe(ctx context.Context, address string, start time.Time, err error) {
	switch {
	case !c.breaks:
	case err == nil:
		if b := c.conns.breaker(address, false); b != nil {
			b.succeeded()
		}
	case isFailure(ctx, start, err):
		c.conns.breaker(address, true).failed(start, err, ctx.Err() != nil)
	}
}

// State describes a backend that isn't called.
type State struct {
	// Server is the name by which the backend's certificate is verified, Address where it is called.
	Server  string    `json:"server"`
	Address string    `json:"address"`
	Since   time.Time `json:"since"` // the first failure
	Why     string    `json:"why"`   // the last failure
	// NotMade counts the calls that weren't made.
	NotMade int64 `json:"callsNotMade"`
	// Probed is the time of the last attempt to connect, Probe its error.
	Probed *time.Time `json:"lastProbe,omitempty"`
	Probe  string     `json:"lastProbeError,omitempty"`
}

// NotCalled returns the backends that this process doesn't call, because they don't answer.
func NotCalled() []State {
	states := []State{}
	connPools.mu.Lock()
	defer connPools.mu.Unlock()
	for _, p := range connPools.all {
		p.mu.Lock()
		for _, b := range p.breakers {
			if s, open := b.state(); open {
				states = append(states, s)
			}
		}
		p.mu.Unlock()
	}
	return states
}

func (b *breaker) state() (s State, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return s, false
	}
	s = State{Server: b.pool.tls.ServerName, Address: b.address, Since: b.since, Why: b.why.Error(), NotMade: b.refused}
	if !b.probed.IsZero() {
		probed := b.probed
		s.Probed = &probed
	}
	if b.probe != nil {
		s.Probe = b.probe.Error()
	}
	return s, true
}
