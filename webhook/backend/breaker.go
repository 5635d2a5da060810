// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

const (
	// An endpoint isn't called if no connection to it could be made for failingToOpen.
	failingToOpen = time.Second

	// probeInterval is the time between probes, probeTimeout how long one may take.
	probeInterval = time.Second
	probeTimeout  = 10 * time.Second

	// forgetAfter is how long a breaker stays open that no call has met.
	forgetAfter = 10 * time.Minute
)

// NotCalledError is the error of a call that wasn't made, because no connection can be made.
type NotCalledError struct {
	Since time.Time // the time of the first attempt
	Why   error     // the last failure
}

func (e *NotCalledError) Error() string {
	return fmt.Sprintf("not asked, as no connection could be made since %s (%v); the server tries every second",
		e.Since.UTC().Format(time.RFC3339), e.Why)
}

// breaker keeps calls from an endpoint that can't be reached. Guarded by connPool.mu.
//
// It opens when no connection could be made for a second, and closes when one is made. While it is
// open, a goroutine tries to connect every second. Nothing that happens to a call once it has a
// connection counts: clients choose the objects that a backend takes long to judge, or fails about. A
// dial doesn't end with the calls that wait for it: clients choose how long they wait.
type breaker struct {
	isOpen bool
	since  time.Time // when the first attempt began since a connection was made
	tried  time.Time // when the last one ended
	why    error     // its error; nil if a connection was made
	made   time.Time // when a connection was last made
	// notMade counts the calls that weren't made since it opened, used is when the last one came.
	notMade int64
	used    time.Time
}

// note notes the end of an attempt to connect that began at a time. With p.mu held.
func (p *connPool) note(peer *peer, address string, began time.Time, err error) {
	b := &peer.breaker
	switch {
	case p.peers[address] != peer:
	case err == nil:
		b.made, b.why = time.Now(), nil
		p.closeBreaker(b, address)
	case began.Before(b.made): // another attempt was more successful
	default:
		if b.why == nil {
			b.since = began
		}
		b.why, b.tried = err, time.Now()
		if p.breaks && !b.isOpen && b.tried.Sub(b.since) >= failingToOpen && p.inUse.Err() == nil {
			p.openBreaker(peer, address)
		}
	}
}

func (p *connPool) openBreaker(peer *peer, address string) {
	b := &peer.breaker
	b.isOpen, b.notMade, b.used = true, 0, time.Now()
	openCount.WithLabelValues(p.tls.ServerName, address).Inc()
	openedTotal.WithLabelValues(p.tls.ServerName, address).Inc()
	klog.Warningf("Webhook backend %s at %s isn't called until a connection can be made; since %s none could: %v",
		p.tls.ServerName, address, b.since.UTC().Format(time.RFC3339), b.why)
	go p.probe(peer, address)
}

func (p *connPool) closeBreaker(b *breaker, address string) {
	if !b.isOpen {
		return
	}
	b.isOpen, b.why = false, nil
	openCount.WithLabelValues(p.tls.ServerName, address).Dec()
	klog.Warningf("Webhook backend %s at %s is called again: it wasn't for %d calls since %s",
		p.tls.ServerName, address, b.notMade, b.since.UTC().Format(time.RFC3339))
}

// probe tries to connect until the breaker is closed. It closes it if no call comes for a long time.
func (p *connPool) probe(peer *peer, address string) {
	for {
		select {
		case <-time.After(probeInterval):
		case <-p.inUse.Done():
			return
		}
		p.mu.Lock()
		if time.Since(peer.breaker.used) > forgetAfter {
			p.closeBreaker(&peer.breaker, address)
		}
		if !peer.breaker.isOpen {
			p.mu.Unlock()
			return
		}
		d := p.startDial(peer, address, probeTimeout)
		p.mu.Unlock()
		<-d.done
	}
}

// notCalled returns the error of a call that isn't to be made to address; nil if it is.
func (p *connPool) notCalled(address string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peers[address]
	if peer == nil || !peer.breaker.isOpen {
		return nil
	}
	for _, c := range peer.conns {
		if !closed(c) {
			return nil
		}
	}
	peer.breaker.used = time.Now()
	return &NotCalledError{Since: peer.breaker.since, Why: peer.breaker.why}
}

// countNotMade counts a call that wasn't made, since no endpoint is called, among those of address.
func (p *connPool) countNotMade(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer := p.peers[address]; peer != nil {
		peer.breaker.notMade++
	}
	refusedTotal.WithLabelValues(p.tls.ServerName, address).Inc()
}

// State describes an endpoint of a backend that isn't called.
type State struct {
	// Server is the name by which the backend's certificate is verified, Address where it is called.
	Server  string    `json:"server"`
	Address string    `json:"address"`
	Since   time.Time `json:"since"` // when the first attempt to connect began that failed
	// Probed is the time of the last attempt to connect, Why its error.
	Probed time.Time `json:"lastProbe"`
	Why    string    `json:"why"`
	// NotMade counts the calls that weren't made. One for which there are several endpoints, none of
	// which is called, counts at one of them.
	NotMade int64 `json:"callsNotMade"`
}

// NotCalled returns the endpoints that this process doesn't call, because it can't connect to them.
func NotCalled() []State {
	states := []State{}
	connPools.mu.Lock()
	defer connPools.mu.Unlock()
	for _, p := range connPools.all {
		p.mu.Lock()
		for address, peer := range p.peers {
			if b := &peer.breaker; b.isOpen {
				states = append(states, State{p.tls.ServerName, address, b.since, b.tried, b.why.Error(), b.notMade})
			}
		}
		p.mu.Unlock()
	}
	return states
}
