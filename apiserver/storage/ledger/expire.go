// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"gatehouse.dev/internal/quota"
)

// giveBackAttempts bounds how often a namespace is counted in a row while other writes move its quotas.
const giveBackAttempts = 3

// giveBackRetry is how long after a count that failed, or that other writes have kept from being done, it is
// tried again.
const giveBackRetry = 10 * time.Second

// lookAgain is how often to check whether a pod with a long grace period still exists.
const lookAgain = time.Hour

// expire makes the quotas get back what a pod uses when its grace period ends, although no write shows
// that end. It is called with the change that has been written.
//
// If a pod is stored that will end, its namespace is counted at that time, if the pod is still there. If a
// pod should have been given back before this write, the namespace is counted now: the server that would
// have done so has ended, or the quotas come from a program that doesn't know their clock.
func (l *Ledger) expire(namespace, key string, change quota.Change) {
	if end := change.Old.ExpiresAt(); !end.IsZero() && l.now().After(end) {
		l.inBackground(func() { l.giveBack(namespace, end) })
		return
	}
	switch end := change.New.ExpiresAt(); {
	case end.IsZero():
		l.endings.stop(key)
	case !end.Equal(change.Old.ExpiresAt()):
		l.giveBackAt(namespace, key, end)
	}
}

// inBackground runs a count that no request waits for.
func (l *Ledger) inBackground(count func()) {
	l.counts.launch()
	go func() {
		defer l.counts.land()
		count()
	}()
}

// Counted waits until the counts that writes have caused are done, except for those at the end of a pod's
// grace period.
func (l *Ledger) Counted(ctx context.Context) error { return l.counts.allLanded(ctx) }

// giveBackAt gives back at end what the pod at key uses, if the pod is still there. If another server has
// deleted it, this is noticed within lookAgain.
func (l *Ledger) giveBackAt(namespace, key string, end time.Time) {
	l.lookAfter(min(end.Sub(l.now()), lookAgain)+time.Millisecond, namespace, key, end)
}

// lookAfter waits that long, and then checks whether the pod at key, which ends at end, is still there.
func (l *Ledger) lookAfter(wait time.Duration, namespace, key string, end time.Time) {
	l.endings.set(key, wait, func() {
		ctx, cancel := context.WithTimeout(l.ctx, commitTimeout)
		defer cancel()
		response, err := l.client.KV.Get(ctx, key)
		switch {
		case err != nil:
			l.lookAfter(l.retry, namespace, key, end)
		case len(response.Kvs) == 0:
		case l.now().Before(end):
			l.giveBackAt(namespace, key, end)
		default:
			l.giveBack(namespace, end)
		}
	})
}

// endings holds the timers of pods whose grace period will end, by the pods' keys, and of counts that are
// tried again, by namespace. A timer stops with its pod, and all stop with the ledger.
type endings struct {
	mu     sync.Mutex
	timers map[string]*time.Timer
	closed bool
}

// set makes f run after that time, in place of an earlier timer of the key.
func (e *endings) set(key string, after time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if previous := e.timers[key]; previous != nil {
		previous.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		e.mu.Lock()
		if e.timers[key] == timer {
			delete(e.timers, key)
		}
		e.mu.Unlock()
		f()
	})
	e.timers[key] = timer
}

func (e *endings) stop(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if timer := e.timers[key]; timer != nil {
		timer.Stop()
		delete(e.timers, key)
	}
}

// close stops all timers. Afterwards set does nothing.
func (e *endings) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, timer := range e.timers {
		timer.Stop()
	}
	clear(e.timers)
}

// giveBack counts a namespace in which a pod ended by itself at that time, unless it has been
// counted since: of many that end together the first is enough. If it can't, it tries again later.
func (l *Ledger) giveBack(namespace string, ended time.Time) {
	done, err := l.countSince(namespace, ended)
	if done || l.ctx.Err() != nil {
		return
	}
	if err != nil {
		klog.ErrorS(err, "Giving back what pods used that have ended", "namespace", namespace)
	}
	// Pods' keys begin with a slash, so a namespace has a timer of its own.
	l.endings.set(namespace, l.retry, func() { l.giveBack(namespace, ended) })
}

// countSince counts a namespace, unless it has been counted since then. done is false if others kept moving
// its quotas.
func (l *Ledger) countSince(namespace string, then time.Time) (done bool, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, commitTimeout)
	defer cancel()
	a := l.account(namespace)
	a.counting.Lock()
	defer a.counting.Unlock()
	if a.counted.After(then) {
		return true, nil
	}
	for attempt := range giveBackAttempts {
		if attempt == 1 { // others were faster; now this server's wait
			if err := a.wait(ctx); err != nil {
				return false, err
			}
			defer a.done()
			if err := a.settle(ctx); err != nil {
				return false, err
			}
		}
		began := l.now()
		if done, err = l.countAll(ctx, namespace, false); err != nil {
			return false, err
		}
		if done {
			a.counted = began
			break
		}
	}
	return done, nil
}
