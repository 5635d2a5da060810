// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// usageInterval is how often watches show the usage of a quota that moves all the time. Under load
// a quota moves with every object of its namespace, and showing each of its states to each watch
// costs more than storing it.
const usageInterval = 50 * time.Millisecond

// pacedWatcher is an etcd watcher that shows constantly moving usage once an interval, and rare
// changes at once. It leaves out charges that were followed by another change of the quota within
// the interval. It shows all creations, deletions and clients' writes. Watches of Kubernetes
// promise only that they arrive at the present state.
//
// With each change, watches of Kubernetes need the state before it. etcd would read that from its
// disk for every change, those left out too. Here it is the state that was shown last.
type pacedWatcher struct {
	clientv3.Watcher
	kv       clientv3.KV
	interval time.Duration
	charges  chargeFunc
}

// A chargeFunc reports whether a server's own charge has made after of before.
type chargeFunc func(ctx context.Context, before, after *mvccpb.KeyValue) bool

// withPacedWatcher returns the client with its watcher paced.
func withPacedWatcher(client *clientv3.Client, interval time.Duration, charges chargeFunc) *clientv3.Client {
	c := clientv3.NewCtxClient(client.Ctx())
	c.KV, c.Lease, c.Cluster, c.Auth, c.Maintenance = client.KV, client.Lease, client.Cluster, client.Auth,
		client.Maintenance
	c.Watcher = pacedWatcher{client.Watcher, client.KV, interval, charges}
	return c
}

// Watch implements clientv3.Watcher, for the watch of a watch cache, which follows a whole kind and
// asks for progress.
func (w pacedWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	options := clientv3.OpGet(key, opts...)
	in, out := w.Watcher.Watch(ctx, key, clientv3.WithRange(string(options.RangeBytes())), clientv3.WithRev(options.Rev()),
		clientv3.WithProgressNotify()),
		make(chan clientv3.WatchResponse)
	go pace(ctx, in, out, w.interval, w.stateBefore, w.charges)
	return out
}

// stateBefore returns the state of a key before a revision, or nil if that isn't known any more.
func (w pacedWatcher) stateBefore(ctx context.Context, key string, revision int64) *mvccpb.KeyValue {
	response, err := w.kv.Get(ctx, key, clientv3.WithRev(revision-1))
	if err != nil || len(response.Kvs) == 0 {
		return nil
	}
	return response.Kvs[0]
}

// pace passes events on from in to out until in is closed. It calls before once for each key.
func pace(ctx context.Context, in <-chan clientv3.WatchResponse, out chan<- clientv3.WatchResponse,
	interval time.Duration, before func(ctx context.Context, key string, revision int64) *mvccpb.KeyValue,
	charges chargeFunc) {
	defer close(out)
	shown := map[string]*mvccpb.KeyValue{}
	send := func(r clientv3.WatchResponse) {
		for _, e := range r.Events {
			key := string(e.Kv.Key)
			if e.PrevKv = shown[key]; e.PrevKv == nil && !e.IsCreate() {
				e.PrevKv = before(ctx, key, e.Kv.ModRevision)
			}
			if shown[key] = e.Kv; e.Type == mvccpb.DELETE {
				delete(shown, key)
			}
		}
		select {
		case out <- r:
		case <-ctx.Done():
		}
	}
	arrived := map[string]*mvccpb.KeyValue{}
	// isCharge is asked once for each event, in order.
	isCharge := func(e *clientv3.Event) bool {
		key := string(e.Kv.Key)
		previous := arrived[key]
		if arrived[key] = e.Kv; e.Type == mvccpb.DELETE {
			delete(arrived, key)
		}
		return e.IsModify() && previous != nil && charges(ctx, previous, e.Kv)
	}
	var last clientv3.WatchResponse // of which something is held
	var held []heldEvent
	release := func() {
		if len(held) == 0 {
			return
		}
		last.Events = make([]*clientv3.Event, len(held))
		for i, h := range held {
			last.Events[i] = h.Event
		}
		send(last)
		last, held = clientv3.WatchResponse{}, nil
	}
	// until then, what comes is held; nil if nothing has been shown lately
	var rest <-chan time.Time
	for {
		select {
		case response, open := <-in:
			if !open {
				release()
				return
			}
			if len(response.Events) == 0 || response.Err() != nil {
				// Progress says that everything up to its revision was shown.
				release()
				send(response)
				continue
			}
			for _, e := range response.Events {
				held = followedBy(held, heldEvent{e, isCharge(e)})
			}
			last = response
			if rest == nil {
				release()
				rest = time.After(interval)
			}
		case <-rest:
			rest = nil
			if len(held) > 0 {
				release()
				rest = time.After(interval)
			}
		}
	}
}

// heldEvent is an event that waits until it is shown.
type heldEvent struct {
	*clientv3.Event
	charge bool
}

// followedBy returns the events and then next. It leaves out a charge that next follows with
// another change.
func followedBy(events []heldEvent, next heldEvent) []heldEvent {
	for i, e := range slices.Backward(events) {
		if !bytes.Equal(e.Kv.Key, next.Kv.Key) {
			continue
		}
		if e.charge && next.IsModify() {
			events = slices.Delete(events, i, i+1)
		}
		break
	}
	return append(events, next)
}

// WithAnswers returns the store of a kind that answers writes with what is stored. For all kinds but quotas
// that is the store itself.
func (l *Ledger) WithAnswers(kind schema.GroupResource, stored storage.Interface) storage.Interface {
	if kind != quotaResource {
		return stored
	}
	return quotaAnswers{stored}
}

// WithStoredLists returns what serves a kind from a watch cache over stored. For all kinds but
// quotas that is the cache.
func (l *Ledger) WithStoredLists(kind schema.GroupResource, cached, stored storage.Interface) storage.Interface {
	if l == nil || kind != quotaResource {
		return cached
	}
	return storedLists{cached, stored}
}

// storedLists is a store behind a watch cache that is fed by a pacedWatcher. The cache can't keep a
// list's promise about its revision: it misses the states that were left out, and is at a revision
// as soon as it has seen one object of it. So it serves only lists that promise nothing
// (resourceVersion=0).
type storedLists struct {
	storage.Interface
	stored storage.Interface
}

// GetList implements storage.Interface.
func (s storedLists) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if opts.ResourceVersion != "0" {
		return s.stored.GetList(ctx, key, opts, list)
	}
	return s.Interface.GetList(ctx, key, opts, list)
}
