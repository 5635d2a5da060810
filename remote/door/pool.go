package door

import (
	"net/netip"
	"sync"
	"time"
)

// moment is the time within which nothing should have to give way: an ordinary review takes less.
const moment = time.Second

// A pool bounds what callers take of something.
type pool struct {
	// total is how much there is, and strangers how much of it strangers may take.
	total, strangers int64
	// hasty is called if a member gives way that had less than a moment, or was waiting for its
	// turn.
	hasty func()

	mu        sync.Mutex
	members   map[*member]struct{}
	taken     int64
	byThem    int64            // what strangers have taken
	byAddress map[string]int64 // what each address has taken
}

// A member is a caller's connection or request. Its fields belong to the pool once it has joined.
type member struct {
	address string
	known   bool
	taken   int64
	// since is when it began what it hasn't finished.
	since time.Time
	// waiting is that it is whole and waits for its turn.
	waiting bool
	// working is how many requests are being worked at. It doesn't give way meanwhile.
	working int
	// drop ends it. It is called once, by a goroutine of its own.
	drop func()
	// dropped is closed when drop has returned; nil unless the member has given way.
	dropped chan struct{}
}

func newPool(total, strangers int64, hasty func()) *pool {
	return &pool{total: total, strangers: strangers, hasty: hasty, members: map[*member]struct{}{},
		byAddress: map[string]int64{}}
}

// join adds a member that takes n. It reports whether the member has got it.
func (p *pool) join(m *member, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.since = time.Now()
	p.members[m] = struct{}{}
	return p.give(m, n)
}

// take gives a member n more, or takes it back if that is less than 0. It reports whether the
// member has got it, and hasn't given way.
func (p *pool) take(m *member, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.dropped == nil && p.give(m, n)
}

// leave gives back all that a member has taken. It returns when drop isn't being called any more.
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

// has reports whether a member hasn't given way.
func (p *pool) has(m *member) bool { return p.change(m, func() {}) }

// recognize makes a member known.
func (p *pool) recognize(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.members[m]; there && !m.known {
		p.byThem -= m.taken
	}
	m.known = true
}

// give has others give way until there is room for n more of m, or m itself.
func (p *pool) give(m *member, n int64) bool {
	for p.taken+n > p.total || !m.known && p.byThem+n > p.strangers {
		v := p.victim(m)
		if v == nil {
			v = m
		}
		if !v.slow(time.Now()) {
			p.hasty()
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

// victim returns the member that gives way to m, which may be m; nil if there is none.
func (p *pool) victim(m *member) (v *member) {
	now := time.Now()
	for c := range p.members {
		if c.working == 0 && (m.known || !c.known) && (v == nil || p.before(c, v, now)) {
			v = c
		}
	}
	return v
}

// before reports whether a gives way before b: strangers before known callers, then what is of the
// address that takes most. Of one address it is first what has been unfinished for more than a
// moment, the oldest first. Then it is what takes most, and of as much what isn't whole, the oldest
// first, and then what came last.
func (p *pool) before(a, b *member, now time.Time) bool {
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
		p.byThem += n
	}
	if p.byAddress[m.address] += n; p.byAddress[m.address] == 0 {
		delete(p.byAddress, m.address)
	}
}

// addressOf returns the address of a caller, without its port. Of IPv6 it is the network: a machine
// has all of it.
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
