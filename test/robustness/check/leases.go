// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// leaseKey is the key of the Lease of the leader's controllers.
const leaseKey = keyPrefix + "leases/kube-system/gatehouse-controllers"

// accounts begins the names of the controllers' users. Nobody else uses the service accounts of that namespace.
const accounts = "system:serviceaccount:kube-system:"

// clockError is how well the clock of a lease's holder is known.
const clockError = 500 * time.Millisecond

// term is the time in which one process held the lease.
type term struct {
	holder string
	// acquired and renewed are times by the clock of the holder, in nanoseconds: those at which it began to
	// ask for the lease. It has the lease by the time seen, of the test.
	acquired, renewed, seen, duration int64
	wasReleased                       bool
	// skew is how far the clock of the holder was ahead.
	skew int64
}

// controllersWrite is a write of a server's controllers, at a time by the test's clock.
type controllersWrite struct {
	life string
	at   int64
	what string
}

// checkLeases checks that the controllers of two servers never work at the same time. A process takes
// the lease only if the one before has given it away, or hasn't renewed it for as long as it lasts. In
// a term only one process' controllers write.
func (h *History) checkLeases(s *store, r *Report) {
	terms := s.terms(r)
	for _, t := range terms {
		t.skew = h.skewFrom(t.skew)
	}
	for i, t := range terms {
		r.count("leader's terms")
		if i == 0 || terms[i-1].wasReleased {
			continue
		}
		before := terms[i-1]
		early := before.renewed - before.skew + before.duration - (t.acquired - t.skew)
		if early > clockError.Nanoseconds() {
			r.fail("leases", "%s took the lease %s before %s lost it", t.holder, time.Duration(early), before.holder)
		}
	}
	now := -1
	var last *controllersWrite
	for _, w := range h.controllersWrites() {
		r.count("controllers' writes")
		if last == nil || last.life != w.life {
			next := nextTerm(terms, now, last, w)
			switch {
			case next < len(terms):
				now = next
			case last == nil:
				r.fail("leases", "the controllers of %s wrote (%s) before any held the lease", w.life, w.what)
			default:
				r.fail("leases", "the controllers of %s wrote (%s) %s after those of %s (%s), and the lease hadn't changed hands",
					w.life, w.what, time.Duration(w.at-last.at), last.life, last.what)
			}
		}
		last = &w
	}
}

// nextTerm returns the first term after another one that may have begun between two writes, the first of
// which is nil if there is none before the second. It returns the number of all terms if there is no such
// term.
func nextTerm(terms []*term, now int, last *controllersWrite, w controllersWrite) int {
	for next := now + 1; next < len(terms); next++ {
		t := terms[next]
		if t.acquired-t.skew > w.at+clockError.Nanoseconds() {
			return len(terms)
		}
		if last == nil || t.seen >= last.at-clockError.Nanoseconds() {
			return next
		}
	}
	return len(terms)
}

// terms returns the terms of all holders of the lease.
func (s *store) terms(r *Report) (terms []*term) {
	for _, v := range s.versions[leaseKey] {
		l, ok := v.object.(*coordinationv1.Lease)
		if !ok || l.Spec.HolderIdentity == nil || l.Spec.RenewTime == nil || l.Spec.AcquireTime == nil {
			r.fail("leases", "revision %d: the lease is gone or incomplete", v.revision)
			continue
		}
		r.count("lease renewals")
		var now *term
		if len(terms) > 0 {
			now = terms[len(terms)-1]
		}
		renewed := l.Spec.RenewTime.UnixNano()
		switch holder := *l.Spec.HolderIdentity; {
		case holder == "":
			if now != nil {
				now.wasReleased = true
			}
		case now != nil && holder == now.holder && !now.wasReleased:
			// The record is late, if anything. So the clock is ahead by the greatest difference, at least.
			now.renewed, now.skew = renewed, max(now.skew, renewed-v.seen)
		default:
			terms = append(terms, &term{holder: holder, acquired: l.Spec.AcquireTime.UnixNano(), renewed: renewed,
				seen: v.seen, skew: renewed - v.seen, duration: int64(*l.Spec.LeaseDurationSeconds) * time.Second.Nanoseconds()})
		}
	}
	return terms
}

// skewFrom returns the skew of a process that is nearest to the least that a skew can be.
func (h *History) skewFrom(least int64) int64 {
	found := false
	var nearest int64
	for _, life := range h.Lives {
		if life.Skew >= least-clockError.Nanoseconds() && (!found || life.Skew < nearest) {
			found, nearest = true, life.Skew
		}
	}
	if !found {
		return least
	}
	return nearest
}

// controllersWrites returns the admitted writes of all servers' controllers, in the order of time.
func (h *History) controllersWrites() (writes []controllersWrite) {
	for _, life := range h.Lives {
		for _, d := range h.Decisions[life.Decisions] {
			account, isController := strings.CutPrefix(d.User, accounts)
			if d.Code != 0 && d.Code < http.StatusMultipleChoices && isController {
				writes = append(writes, controllersWrite{life.Decisions, d.Time - life.Skew, account + ": " + d.Request})
			}
		}
	}
	slices.SortFunc(writes, func(a, b controllersWrite) int { return cmp.Compare(a.at, b.at) })
	return writes
}
