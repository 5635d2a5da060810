// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/quota"
)

// account holds what the ledger knows of one namespace's quotas.
//
// Writes take turns to be decided, not to be stored. Each is decided on the state that the writes
// before it will leave, and its transaction holds only if they did. etcd nearly always gets them in
// that order, and writes several to its log at once. If one fails, those behind it fail too. Then
// everything lands, the quotas are read again, and the failed writes are decided anew.
type account struct {
	// last is the state last read, to tell namespaces that have quotas from those that have none; nil
	// if nothing is known.
	last atomic.Pointer[quotaList]

	// turn has room for the one write that is being decided. It guards tip.
	turn chan struct{}
	// tip is the state after all transactions under way; nil if it must be read.
	tip *quotaList
	// stale is set by a transaction that failed: tip will not come to be.
	stale atomic.Bool

	// counted is when the namespace was last counted because pods had ended. counting guards it,
	// and is held while that is done.
	counting sync.Mutex
	counted  time.Time

	flights // the transactions under way
}

func newAccount() *account { return &account{turn: make(chan struct{}, 1)} }

// wait takes the turn; done gives it back. A request that has ended doesn't get it, even if the turn is
// free: it stores nothing any more.
func (a *account) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *account) done() { <-a.turn }

// settle waits until nothing flies, after which tip must be read. It is the caller's turn.
func (a *account) settle(ctx context.Context) error {
	a.tip = nil
	if err := a.allLanded(ctx); err != nil {
		return err
	}
	a.stale.Store(false)
	return nil
}

// flights counts transactions under way, and lets callers wait for them.
type flights struct {
	mu     sync.Mutex
	flying int
	landed chan struct{} // closed when nothing flies; nil before anything has
}

// launch and land enclose a transaction.
func (f *flights) launch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flying++; f.flying == 1 {
		f.landed = make(chan struct{})
	}
}

func (f *flights) land() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flying--; f.flying == 0 {
		close(f.landed)
	}
}

// allLanded waits until nothing flies, or ctx ends.
func (f *flights) allLanded(ctx context.Context) error {
	f.mu.Lock()
	landed := f.landed
	f.mu.Unlock()
	if landed == nil {
		return nil
	}
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quotaList is a state of a namespace's quotas: these, and none that was made after revision. It is
// not changed.
type quotaList struct {
	revision int64
	entries  []quotaEntry
}

// quotaEntry is a state of a quota: the stored bytes, and the quota that they encode. The bytes are known
// before they are stored, unlike a revision, and identify the state, unlike the number of a key's writes.
type quotaEntry struct {
	key   string
	data  []byte // not changed
	quota *corev1.ResourceQuota
	// template encodes the quota with other usages; nil until it has moved once.
	template *template
	// revision is that of the last change, in a list that was read and not moved on.
	revision int64
}

// unknown reports whether the usage of what the quota limits isn't known.
func (e quotaEntry) unknown() bool { return !quota.IsUsageKnown(e.quota) }

// holds returns the condition that this state is stored. Neither holds nor put copies data, which is most
// of a transaction.
func (e quotaEntry) holds() clientv3.Cmp {
	condition := clientv3.Compare(clientv3.Value(e.key), "=", "")
	condition.WithValueBytes(e.data)
	return condition
}

func (e quotaEntry) put() clientv3.Op { return putBytes(e.key, e.data) }

// putBytes is clientv3.OpPut without a copy of the data, which is not to be changed any more.
func putBytes(key string, data []byte, options ...clientv3.OpOption) clientv3.Op {
	put := clientv3.OpPut(key, "", options...)
	put.WithValueBytes(data)
	return put
}

// holds returns the conditions that the quotas below prefix are in this state, with room for one
// more.
func (l *quotaList) holds(prefix string) []clientv3.Cmp {
	conditions := make([]clientv3.Cmp, 0, len(l.entries)+2)
	conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(prefix).WithPrefix(), "<", l.revision+1))
	for _, e := range l.entries {
		conditions = append(conditions, e.holds())
	}
	return conditions
}

// objects returns the quotas.
func (l *quotaList) objects() []*corev1.ResourceQuota {
	objects := make([]*corev1.ResourceQuota, len(l.entries))
	for i, e := range l.entries {
		objects[i] = e.quota
	}
	return objects
}

// entry returns the state of the quota at key, or an empty one if there is none.
func (l *quotaList) entry(key string) quotaEntry {
	i := slices.IndexFunc(l.entries, func(e quotaEntry) bool { return e.key == key })
	if i < 0 {
		return quotaEntry{}
	}
	return l.entries[i]
}

// without returns the state without the quota at key.
func (l *quotaList) without(key string) *quotaList {
	if !slices.ContainsFunc(l.entries, func(e quotaEntry) bool { return e.key == key }) {
		return l
	}
	return &quotaList{revision: l.revision,
		entries: slices.DeleteFunc(slices.Clone(l.entries), func(e quotaEntry) bool { return e.key == key })}
}

// after returns the state once the moved quotas have been written to their store, and the writes that
// make it so, with room for one more.
func (l *quotaList) after(ctx context.Context, s *accounted, moved []*corev1.ResourceQuota) (*quotaList, []clientv3.Op,
	error) {
	if len(moved) == 0 {
		return l, nil, nil
	}
	next := &quotaList{revision: l.revision, entries: slices.Clone(l.entries)}
	writes := make([]clientv3.Op, 0, len(moved)+1)
	for _, q := range moved {
		i := slices.IndexFunc(next.entries, func(e quotaEntry) bool { return e.quota.UID == q.UID })
		entry := &next.entries[i]
		entry.quota, entry.revision = q, 0
		if err := s.encode(ctx, entry); err != nil {
			return nil, nil, err
		}
		writes = append(writes, entry.put())
	}
	return next, writes, nil
}

// cacheStrings makes quantities remember how they are written, which takes longer than all else about
// encoding a quota and is asked for twice each time.
func cacheStrings(list corev1.ResourceList) {
	for name, quantity := range list {
		_ = quantity.String()
		list[name] = quantity
	}
}
