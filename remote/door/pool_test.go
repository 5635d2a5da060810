// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"testing"
	"time"
)

// newMember returns a member that joins a pool, and whether it has given way.
func newMember(p *pool, address string, known bool, n int64, since time.Duration) (m *member, gone func() bool) {
	m = &member{address: address, known: known, drop: func() {}}
	p.join(m, n)
	p.change(m, func() { m.since = time.Now().Add(-since) })
	return m, func() bool { return !p.holds(m) }
}

func TestGivingWay(t *testing.T) {
	hasty := 0
	p := newPool(10, 8, func() { hasty++ })
	_, olderGone := newMember(p, "a", false, 2, time.Hour)
	_, oldestGone := newMember(p, "b", false, 1, 2*time.Hour)
	worked, workedGone := newMember(p, "a", false, 2, 3*time.Hour)
	p.change(worked, func() { worked.working = 1 })
	_, newerGone := newMember(p, "a", false, 3, time.Minute)

	// The address that takes most gives way, with what is oldest of it and isn't worked at.
	last, lastGone := newMember(p, "c", false, 2, 0)
	if !olderGone() || oldestGone() || workedGone() || newerGone() || lastGone() {
		t.Error("the wrong one gives way to a stranger")
	}
	if hasty != 0 {
		t.Error("it was hasty")
	}
	// Known callers have what strangers haven't, and then the room of strangers.
	_, knownGone := newMember(p, "c", true, 4, time.Hour)
	if !newerGone() || knownGone() || lastGone() || oldestGone() {
		t.Error("the wrong one gives way to a known caller")
	}
	// A stranger never takes it from them.
	_, strangerGone := newMember(p, "d", false, 8, 0)
	if knownGone() || !strangerGone() || workedGone() {
		t.Error("the wrong one gives way to a large stranger")
	}
	if hasty == 0 {
		t.Error("a stranger gave way at once, and it wasn't hasty")
	}
	p.leave(last)
	p.leave(worked)
	if p.take(last, 1) {
		t.Error("what has left takes more")
	}
}

// All that is taken is given back, whoever leaves or gives way.
func TestNothingStaysTaken(t *testing.T) {
	p := newPool(100, 50, func() {})
	var all []*member
	for i := range 300 {
		m, _ := newMember(p, string(rune('a'+i%7)), i%3 == 0, int64(i%11), 0)
		if i%5 == 0 {
			p.recognize(m)
		}
		all = append(all, m)
	}
	if p.taken > p.total || p.byStrangers > p.strangers {
		t.Errorf("%d are taken, %d by strangers", p.taken, p.byStrangers)
	}
	for _, m := range all {
		p.leave(m)
	}
	if p.taken != 0 || p.byStrangers != 0 || len(p.members) != 0 || len(p.byAddress) != 0 {
		t.Errorf("%d are taken, %d by strangers, %d members, addresses %v", p.taken, p.byStrangers, len(p.members),
			p.byAddress)
	}
}

func TestAddressOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80":          "192.0.2.1",
		"[::ffff:192.0.2.1]:80": "192.0.2.1",
		"[2001:db8::1%eth0]:80": "2001:db8::/64",
		"[2001:db8::2]:80":      "2001:db8::/64",
		"@":                     "@",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s: %s", remote, got)
		}
	}
}
