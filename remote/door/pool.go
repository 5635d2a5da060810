// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"net/netip"
	"sync"
	"time"
)

// moment is the time within which no member should have to give way: an ordinary review takes less.
const moment = time.Second

// A pool bounds how much callers take of a resource.
type pool struct {
	// total is how much there is, and strangers the part that strangers may take.
	total, strangers int64
	// onHasty is called if a member gives way that was there for less than a moment, or that was
	// waiting for its turn.
	onHasty func()

	mu          sync.Mutex
	members     map[*member]struct{}
	taken       int64
	byStrangers int64            // what strangers have taken
	byAddress   map[string]int64 // what each address has taken
}

// A member is a caller's connection or request. Its fields belong to the pool once it has joined.
type member struct {
	address string
	known   bool
	taken   int64
	// since is when it began its unfinished work.
	since time.Time
	// waiting reports whether it is whole and waits for its turn.
	waiting bool
	// working counts its requests that are being worked at. It doesn't give way meanwhile.
	working int
	// drop ends it. It is called once, in its own goroutine.
	drop func()
	// dropped is closed when drop has returned. It is nil unless the member has given way.
	dropped chan struct{}
}

func newPool(total, strangers int64, onHasty func()) *pool {
	return &pool{total: total, strangers: strangers, onHasty: onHasty, members: map[*member]struct{}{},
		byAddress: map[string]int64{}}
}

// join adds a member that takes n, and reports whether there was room.
func (p *pool) join(m *member, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.since = time.Now()
	p.members[m] = struct{}{}
	return p.makeRoom(m, n)
}

// take gives a member n more, or takes back if n is negative. It reports whether there was room and
// the member hasn't given way.
func (p *pool) take(m *member, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.dropped == nil && p.makeRoom(m, n)
}

// leave gives back all that a member has taken. It returns after drop has returned.
func (p *pool) leave(m *member) {
	p.mu.Lock()
	p.remove(m)
	dropped := m.dropped
	p.mu.Unlock()
	if dropped != nil {
		<-dropped
	}
}

// change calls f, which may change since, waiting and working, and reports whether the member
// hasn't given way.
func (p *pool) change(m *member, f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	return m.dropped == nil
}

// holds reports whether a member hasn't given way.
func (p *pool) holds(m *member) bool { return p.change(m, func() {}) }

// recognize makes a member known.
func (p *pool) recognize(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.members[m]; there && !m.known {
		p.byStrangers -= m.taken
	}
	m.known = true
}

// makeRoom makes others give way, or m itself, until there is room for n more of m.
func (p *pool) makeRoom(m *member, n int64) bool {
	for p.taken+n > p.total || !m.known && p.byStrangers+n > p.strangers {
		v := p.victim(m)
		if v == nil {
			v = m
		}
		if !v.slow(time.Now()) {
			p.onHasty()
		}
		p.remove(v)
		v.dropped = make(chan struct{})
		go func() {
			v.drop()
			close(v.dropped)
		}()
		if v == m {
			return false
		}
	}
	p.count(m, n)
	return true
}

// victim returns the member that gives way to m. It may be m, or nil if there is none.
func (p *pool) victim(m *member) (v *member) {
	now := time.Now()
	for c := range p.members {
		if c.working == 0 && (m.known || !c.known) && (v == nil || p.givesWayBefore(c, v, now)) {
			v = c
		}
	}
	return v
}

// givesWayBefore reports whether a gives way before b. Strangers go before known callers, then the address
// that takes most. Within an address, members that have been unfinished for more than a moment go
// first, the oldest first. Then those that take most go. Among equals, unfinished members go first,
// the oldest first, and then the newest.
func (p *pool) givesWayBefore(a, b *member, now time.Time) bool {
	oldA, oldB := a.slow(now), b.slow(now)
	switch takenA, takenB := p.byAddress[a.address], p.byAddress[b.address]; {
	case a.known != b.known:
		return b.known
	case takenA != takenB:
		return takenA > takenB
	case oldA != oldB:
		return oldA
	case !oldA && a.taken != b.taken:
		return a.taken > b.taken
	case a.waiting != b.waiting:
		return b.waiting
	}
	return a.since.Before(b.since) != a.waiting
}

// slow reports whether a member has been unfinished for more than a moment.
func (m *member) slow(now time.Time) bool { return !m.waiting && now.Sub(m.since) >= moment }

func (p *pool) remove(m *member) {
	if _, there := p.members[m]; there {
		p.count(m, -m.taken)
		delete(p.members, m)
	}
}

// count adds n to what a member has taken.
func (p *pool) count(m *member, n int64) {
	m.taken += n
	p.taken += n
	if !m.known {
		p.byStrangers += n
	}
	if p.byAddress[m.address] += n; p.byAddress[m.address] == 0 {
		delete(p.byAddress, m.address)
	}
}

// addressOf returns the address of a caller, without its port. For IPv6 it is the network, since
// one machine has all of it.
func addressOf(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	if a := ap.Addr().Unmap(); a.Is6() {
		network, _ := a.WithZone("").Prefix(64) // which any such address has
		return network.String()
	} else {
		return a.String()
	}
}
