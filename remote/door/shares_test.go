// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var a, b, c = addressOf("192.0.2.1:1"), addressOf("192.0.2.2:1"), addressOf("192.0.2.3:1")

// An address alone has half. However many addresses take as much as they get, another one finds room.
func TestBudgetLeavesRoom(t *testing.T) {
	all := &budget{total: 1 << 20, held: map[netip.Prefix]int64{}}
	if all.take(a, 1<<19+1, atOnce) || !all.take(a, 1<<19, atOnce) || all.take(a, 1, atOnce) {
		t.Error("an address alone doesn't get half")
	}
	for i := range 10 {
		other := addressOf(fmt.Sprintf("192.0.3.%d:1", i))
		for all.take(other, 1, atOnce) {
		}
	}
	if !all.take(b, 1, atOnce) {
		t.Error("there is no room for another address")
	}
}

// The address that holds least is next, with the request of it that has waited for longest. A request
// that isn't waited for any more is in nobody's way.
func TestBudgetGoesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &budget{total: 100, held: map[netip.Prefix]int64{}}
		all.take(a, 50, nil)
		var mu sync.Mutex
		var got []string
		var waiting sync.WaitGroup
		want := func(ctx context.Context, name string, address netip.Prefix, amount int64) {
			waiting.Go(func() {
				if all.take(address, amount, ctx.Done()) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, name)
				}
			})
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		want(gone, "a0", a, 50)
		want(t.Context(), "a1", a, 30)
		want(t.Context(), "a2", a, 30)
		want(t.Context(), "b1", b, 30)
		leave()
		for _, gives := range []func(){
			func() { all.give(a, 20) }, // then a holds 30, and b1 is next
			func() { all.give(b, 30); all.give(a, 30) },
			func() { all.give(a, 30) },
		} {
			gives()
			synctest.Wait()
		}
		waiting.Wait()
		if order := strings.Join(got, " "); order != "b1 a1 a2" {
			t.Errorf("the order is %s", order)
		}
		all.give(a, 30)
		if all.taken != 0 || len(all.held) != 0 {
			t.Errorf("%d are taken, by %d addresses", all.taken, len(all.held))
		}
	})
}

// An address with small reviews doesn't wait for one with large reviews.
func TestBudgetOfLargeReviews(t *testing.T) {
	all := &budget{total: mostWork, held: map[netip.Prefix]int64{}}
	for all.take(a, mostWork/4, atOnce) {
	}
	if !all.take(b, mostWork/8, atOnce) {
		t.Error("another address waits")
	}
}

// A pipe is a connection from an address.
type pipe struct {
	net.Conn
	remote net.Addr
}

func (p pipe) RemoteAddr() net.Addr { return p.remote }

// The address that holds most gives way, with its connection that hasn't been used for longest. Those
// with a certificate or for health have a share of their own.
func TestWhichConnectionGivesWay(t *testing.T) {
	now := time.Now()
	held := func(open ...*connection) *connections {
		all := &connections{open: map[string]*connection{}}
		for i, o := range open {
			o.Conn = pipe{remote: &net.TCPAddr{Port: i}}
			all.open[fmt.Sprint(i)] = o
		}
		return all
	}
	older := &connection{address: a, used: now.Add(-time.Hour)}
	newer := &connection{address: a, used: now}
	alone := &connection{address: b, used: now.Add(-2 * time.Hour)}
	if got := held(older, newer, alone).next(); got != older {
		t.Errorf("%v at %v gives way", got.address, got.used)
	}
	var many []*connection
	for range reserved["certificate"] {
		many = append(many, &connection{address: c, kind: "certificate", used: now.Add(-time.Hour)})
	}
	if got := held(append(many, older, newer, alone)...).next(); got != older {
		t.Errorf("%s of %v gives way before a stranger", got.kind, got.address)
	}
	many = append(many, &connection{address: c, kind: "certificate", used: now})
	if got := held(append(many, older, newer, alone)...).next(); got.address != c {
		t.Errorf("%v gives way, though another address holds more than the share", got.address)
	}
}

func TestAddressOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80":          "192.0.2.1/32",
		"[::ffff:192.0.2.1]:80": "192.0.2.1/32",
		"[2001:db8::1%eth0]:80": "2001:db8::/64",
		"[2001:db8::2]:80":      "2001:db8::/64",
	} {
		if got := addressOf(remote).String(); got != want {
			t.Errorf("%s: %s", remote, got)
		}
	}
}

// Brackets and commas in texts aren't work.
func TestWorkOf(t *testing.T) {
	const none = 32<<10 + 3*12
	for body, want := range map[string]int64{
		"":             2 << 20,
		`"{[,\"{[,  "`: none,
		`{"a":[0,1]} `: none + 2<<10 + 128,
	} {
		if got := workOf([]byte(body)); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}
