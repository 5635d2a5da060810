package storage

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"gatehouse.dev/quota"
)

// giveBackAttempts is how often a namespace is counted where others move its quotas meanwhile.
// After that the quota controller finds what is left.
const giveBackAttempts = 3

// overdue tells whether a cost has ended since it was measured.
func overdue(c *quota.Cost) bool {
	return !c.Expires().IsZero() && time.Now().After(c.Expires())
}

// expire sees to it that the quotas get back what a pod uses when its grace period ends, which no
// write tells of. It is called with what has been written.
//
// Whether a quota still has what a pod used that ended by itself can't be seen in the quota, so it
// takes a count. Where such a pod is written or deleted, it is done now; who stores a pod that will
// end looks at that time whether it is still there.
func (l *Ledger) expire(namespace, key string, change quota.Change) {
	if ended := change.Old.Expired(); !ended.IsZero() {
		go l.giveBack(namespace, ended)
		return
	}
	if end := change.New.Expires(); !end.IsZero() && !end.Equal(change.Old.Expires()) {
		time.AfterFunc(time.Until(end)+time.Millisecond, func() {
			ctx, cancel := context.WithTimeout(l.ctx, commitTimeout)
			defer cancel()
			if response, err := l.backend.Client().KV.Get(ctx, key); err == nil && len(response.Kvs) == 1 {
				l.giveBack(namespace, end)
			}
		})
	}
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
	all := l.census(namespace, list.revision)
	for _, entry := range list.entries {
		same, err := l.recount(ctx, entry, all)
		if err != nil {
			return false, err
		}
		done = done && same
	}
	return done, nil
}
