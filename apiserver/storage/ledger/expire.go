package ledger

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"gatehouse.dev/internal/quota"
)

// giveBackAttempts bounds how often a namespace is counted while other writes move its quotas.
// After that the quota controller corrects the rest.
const giveBackAttempts = 3

// lookAgain is how often to check whether a pod with a long grace period still exists.
const lookAgain = time.Hour

// overdue reports whether a cost has ended since it was measured.
func overdue(c *quota.Cost) bool {
	return !c.ExpiresAt().IsZero() && time.Now().After(c.ExpiresAt())
}

// expire sees to it that the quotas get back what a pod uses when its grace period ends, which no
// write tells of. It is called with what has been written.
//
// Whether a quota still has what a pod used that ended by itself can't be seen in the quota, so it
// takes a count. Where such a pod is written or deleted, it is done now; who stores a pod that will
// end looks at that time whether it is still there.
func (l *Ledger) expire(namespace, key string, change quota.Change) {
	if ended := change.Old.ExpiredAt(); !ended.IsZero() {
		l.later(func() { l.giveBack(namespace, ended) })
		return
	}
	switch end := change.New.ExpiresAt(); {
	case end.IsZero():
		l.endings.stop(key)
	case !end.Equal(change.Old.ExpiresAt()):
		l.await(namespace, key, end)
	}
}

// later does what no request waits for.
func (l *Ledger) later(count func()) {
	l.counts.launch()
	go func() {
		defer l.counts.land()
		count()
	}()
}

// Counted waits until what writes have left to be counted after them has been; what a pod's grace
// period leaves to its end is not among it.
func (l *Ledger) Counted(ctx context.Context) error { return l.counts.allLanded(ctx) }

// await gives back at end what the pod at key uses, if it is still there. Where it is not, because
// another server has deleted it, there is nothing to wait for, and lookAgain is the longest that
// this isn't noticed.
func (l *Ledger) await(namespace, key string, end time.Time) {
	l.endings.set(key, min(time.Until(end), lookAgain)+time.Millisecond, func() {
		ctx, cancel := context.WithTimeout(l.ctx, commitTimeout)
		defer cancel()
		response, err := l.client.KV.Get(ctx, key)
		switch {
		case err != nil || len(response.Kvs) == 0:
		case time.Now().Before(end):
			l.await(namespace, key, end)
		default:
			l.giveBack(namespace, end)
		}
	})
}

// endings holds the timers of pods whose grace period will end, by the pods' keys. A timer stops
// with its pod, and all stop with the ledger.
type endings struct {
	mu     sync.Mutex
	timers map[string]*time.Timer
	closed bool
}

// set makes f run after that time, instead of what was set for the key.
func (e *endings) set(key string, after time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if before := e.timers[key]; before != nil {
		before.Stop()
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

// close stops all, and sets none any more.
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
// counted since: of many that end together the first is enough.
func (l *Ledger) giveBack(namespace string, ended time.Time) {
	ctx, cancel := context.WithTimeout(l.ctx, commitTimeout)
	defer cancel()
	a := l.account(namespace)
	a.counting.Lock()
	defer a.counting.Unlock()
	if a.counted.After(ended) {
		return
	}
	for attempt := range giveBackAttempts {
		if attempt == 1 { // others were faster; now this server's wait
			if a.wait(ctx) != nil {
				return
			}
			defer a.done()
			if a.settle(ctx) != nil {
				return
			}
		}
		began := time.Now()
		done, err := l.recountAll(ctx, namespace)
		if err != nil {
			if l.ctx.Err() == nil {
				klog.ErrorS(err, "Giving back what pods used that have ended", "namespace", namespace)
			}
			return
		}
		if done {
			a.counted = began
			return
		}
	}
}

// recountAll makes the status of all quotas of a namespace what it should be. done is false where
// one has changed meanwhile.
func (l *Ledger) recountAll(ctx context.Context, namespace string) (done bool, err error) {
	list, err := l.read(ctx, namespace)
	if err != nil {
		return false, err
	}
	done = true
	all := l.census(ctx, namespace, list.revision)
	for _, entry := range list.entries {
		same, err := l.recount(ctx, entry, all)
		if err != nil {
			return false, err
		}
		done = done && same
	}
	return done, nil
}
