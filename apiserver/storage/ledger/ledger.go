// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/utils/lru"

	"gatehouse.dev/internal/quota"
)

// commitTimeout bounds a transaction that others may wait for after its own request has ended.
const commitTimeout = 30 * time.Second

// maxAccounts bounds the remembered namespaces: those last written to.
const maxAccounts = 10_000

var quotaResource = schema.GroupResource{Resource: "resourcequotas"}

// Ledger keeps the usage that ResourceQuotas show equal to what is stored, at every revision of the
// store: whatever write changes what a namespace uses moves status.used of its quotas in the same
// etcd transaction. So nothing is ever admitted beyond a limit, no charge outlives a write that
// failed, and neither depends on how many servers there are.
//
// A transaction holds only if the namespace's quotas are in the state on which it was decided. If they
// are not, because another server or a person was faster, it is decided again. No request is refused on
// a state that the ledger merely expects: the ledger reads the quotas once more before it refuses.
//
// Each object that is charged has a transaction, and so a revision, of its own. Several objects of
// a kind at one revision would be cheaper, but Kubernetes' watches take a revision for one change:
// a watch that is resumed after the first of them would not show the others, and a list that waits
// for the revision could be answered before they are in the cache. The quotas of a namespace can't
// be had otherwise: those that move together share the revision of what moves them, and a watch of
// quotas that breaks off between them shows the second when it moves again.
type Ledger struct {
	client *kubernetes.Client
	prefix string // of all keys
	now    func() time.Time
	Options
	ctx     context.Context // of the work that no request waits for; ends with Stop
	cancel  context.CancelFunc
	endings endings
	retry   time.Duration // until a count that failed is tried again
	counts  flights       // of namespaces, which no request waits for
	unseen  unseen

	relatives relatives

	mu       sync.Mutex
	accounts *lru.Cache // *account by namespace
	stores   map[schema.GroupResource]*accounted
}

// Options say how a ledger counts.
type Options struct {
	// Off are the feature gates that are off, of those that quotas follow.
	Off quota.Gates
	// KeepStatus keeps the status that a client writes to a quota, and enforces it, until a charge moves
	// it or the namespace is counted again. A quota controller isn't such a client: the ledger counts in
	// its place. It is for servers whose clients play the controller, as tests on a kube-apiserver do.
	KeepStatus bool
}

// New makes the ledger of a server whose objects are below prefix in the etcd of client.
func New(client *kubernetes.Client, prefix string, options Options) *Ledger {
	ctx, cancel := context.WithCancel(context.Background())
	return &Ledger{client: client, prefix: prefix, now: time.Now, Options: options, ctx: ctx, cancel: cancel,
		retry: giveBackRetry, accounts: lru.New(maxAccounts), stores: map[schema.GroupResource]*accounted{},
		endings: endings{timers: map[string]*time.Timer{}}, relatives: relatives{waiting: map[string][]kinWrite{}}}
}

// Stop ends the work that no request waits for.
func (l *Ledger) Stop() {
	l.cancel()
	l.endings.close()
}

// account returns the account of a namespace. Its knowledge may be forgotten at any time, and is if
// the namespace hasn't been written to for long. Then a holder of the old account and a holder of
// the new one act like two servers.
func (l *Ledger) account(namespace string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.accounts.Get(namespace); ok {
		return a.(*account)
	}
	a := newAccount()
	l.accounts.Add(namespace, a)
	return a
}

// forget drops what is known of a namespace that has gone. The ledger doesn't learn of namespaces that
// another server deleted.
func (l *Ledger) forget(namespace string) { l.accounts.Remove(namespace) }

func (l *Ledger) store(resource schema.GroupResource) *accounted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stores[resource]
}

// quotas returns the store of quotas, and the prefix of the keys of a namespace's quotas.
func (l *Ledger) quotas(namespace string) (s *accounted, prefix string) {
	s = l.store(quotaResource)
	return s, s.prefix + namespace + "/"
}

// read reads the namespace's quotas.
func (l *Ledger) read(ctx context.Context, namespace string) (*quotaList, error) {
	s, prefix := l.quotas(namespace)
	response, err := l.client.KV.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	return s.decodeQuotas(ctx, response.Kvs, response.Header.Revision)
}

// A write is one change of one object's key that may move quotas.
type write struct {
	key      string
	expected int64 // the key's revision, 0 for none
	op       clientv3.Op
	// change computes what the write means to quotas. It isn't called if there are none.
	change func(context.Context) (quota.Change, error)
	// conditions are the further conditions of the change. change sets them.
	conditions []clientv3.Cmp
	enforced   *quota.Enforcement
	// stated are the quotas that have the object in their usage already; see unseen.
	stated unseenUse
	// on is the state of the quotas on which it was decided last.
	on []*corev1.ResourceQuota
}

// outcome of a transaction: either succeeded, or current is the object's present state.
type outcome struct {
	succeeded bool
	revision  int64
	current   *mvccpb.KeyValue
}

// commit makes the write and all that it moves one transaction.
func (l *Ledger) commit(ctx context.Context, namespace string, w *write) (outcome, error) {
	a := l.account(namespace)
	if w.enforced == nil || len(w.enforced.Limited) == 0 {
		result, decided, err := l.commitUnbounded(ctx, namespace, a, w)
		if decided || err != nil {
			return result, err
		}
	}
	change, err := w.change(ctx)
	if err != nil {
		return outcome{}, err
	}
	if quota.HasStatedUsage(ctx) {
		if w.stated, err = l.unseenIn(ctx, namespace); err != nil {
			return outcome{}, err
		}
	}
	var result outcome
	if change.MovesUsage() {
		result, err = l.charge(ctx, namespace, a, w, &change)
	} else {
		var landed landing
		landed, err = l.transact(ctx, w, nil, nil)
		result = landed.outcome
	}
	if result.succeeded {
		w.enforced.ReportAdmitted(change, w.on)
		if len(w.stated) > 0 {
			err = l.recordUnseen(ctx, namespace, func(e quotaEntry) bool { return w.stated[e.quota.UID] != nil })
		}
		l.expire(namespace, w.key, change)
		l.recountKin(namespace, w.key, change)
	}
	return result, err
}

// commitUnbounded commits a write in a namespace that has no quotas. If it has some, nothing is decided.
func (l *Ledger) commitUnbounded(ctx context.Context, namespace string, a *account, w *write) (result outcome,
	decided bool, err error) {
	list := a.last.Load()
	if list == nil {
		if list, err = l.read(ctx, namespace); err != nil {
			return outcome{}, false, err
		}
		a.last.Store(list)
	}
	if len(list.entries) > 0 {
		return outcome{}, false, nil
	}
	_, prefix := l.quotas(namespace)
	landed, err := l.transact(ctx, w, list.holds(prefix), nil)
	if err != nil || landed.succeeded || landed.conflict {
		return landed.outcome, true, err
	}
	a.last.Store(nil)
	return outcome{}, false, nil
}

// charge moves the quotas with the write. If what the write means to them changes meanwhile, charge
// updates change.
func (l *Ledger) charge(ctx context.Context, namespace string, a *account, w *write, change *quota.Change) (outcome,
	error) {
	settled := false
	for {
		conditions, operations, refusal, err := l.decide(ctx, namespace, a, w, *change, settled)
		if err != nil {
			return outcome{}, err
		}
		if refusal == nil {
			landed, err := l.send(ctx, a, w, conditions, operations)
			if err != nil || landed.succeeded || landed.conflict {
				return landed.outcome, err
			}
			if len(w.conditions) > 0 {
				if *change, err = w.change(ctx); err != nil {
					return outcome{}, err
				}
			}
			continue
		}
		// The missing room may be taken by writes under way, which may fail. If what is stored has
		// no room, the write can be refused without a turn.
		stored, refusal, err := l.refusalByStored(ctx, namespace, w, *change)
		if err != nil || stored.conflict {
			return stored.outcome, err
		}
		if refusal != nil {
			return outcome{}, w.enforced.ReportRefused(*change, w.on, refusal)
		}
		settled = true
	}
}

// refusalByStored returns the refusal of the write by the quotas that are stored now. It is nil if they
// have room, or if their usage isn't known. An update that was computed from another state of the object
// than is stored now, as it is by a cache that lags behind, is a conflict and not too much: it is
// computed again.
func (l *Ledger) refusalByStored(ctx context.Context, namespace string, w *write, change quota.Change) (stored landing, refusal,
	err error) {
	s, prefix := l.quotas(namespace)
	response, err := l.client.KV.Txn(ctx).Then(clientv3.OpGet(w.key),
		clientv3.OpGet(prefix, clientv3.WithPrefix())).Commit()
	if err != nil {
		return landing{}, nil, err
	}
	stored = landingOf(response.Responses[0], w.expected)
	if stored.conflict = stored.conflict && w.expected > 0; stored.conflict {
		return stored, nil, nil
	}
	list, err := s.decodeQuotas(ctx, response.Responses[1].GetResponseRange().Kvs, response.Header.Revision)
	if err != nil || slices.ContainsFunc(list.entries, quotaEntry.unknown) {
		return stored, nil, err
	}
	_, refusal = w.admit(change, list)
	return stored, refusal, nil
}

// decide decides the write in its turn. If there is no refusal, it returns the transaction, which counts
// as launched. The caller must send it at once, before the next write in turn has been decided, since
// etcd should get them in this order. With settled, decide waits for the transactions under way, and
// decides on the state that is stored then.
func (l *Ledger) decide(ctx context.Context, namespace string, a *account, w *write, change quota.Change,
	settled bool) (
	conditions []clientv3.Cmp, operations []clientv3.Op, refusal, err error) {
	if err := a.wait(ctx); err != nil {
		return nil, nil, nil, err
	}
	defer a.done()
	if settled || a.tip == nil || a.stale.Load() {
		if err := l.refresh(ctx, namespace, a); err != nil {
			return nil, nil, nil, err
		}
	}
	moved, refusal := w.admit(change, a.tip)
	if refusal != nil {
		return nil, nil, refusal, nil
	}
	s, prefix := l.quotas(namespace)
	next, operations, err := a.tip.after(ctx, s, moved)
	if err != nil {
		return nil, nil, nil, err
	}
	conditions = append(a.tip.holds(prefix), w.conditions...)
	a.tip = next
	a.launch()
	return conditions, operations, nil, nil
}

// landing is the end of a transaction.
type landing struct {
	outcome
	// conflict says that the object itself was not as expected. Without conflict and success, its
	// quotas were not as expected.
	conflict bool
}

// send commits a transaction that was launched. It lands even if the request ends, because the
// transactions behind it rely on it. The request's own goroutine waits for it: another one would have to
// grow its stack first, which takes longer than to decide.
func (l *Ledger) send(ctx context.Context, a *account, w *write, conditions []clientv3.Cmp,
	operations []clientv3.Op) (landed landing, err error) {
	defer func() {
		if !landed.succeeded {
			a.stale.Store(true)
		}
		a.land()
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return l.transact(ctx, w, conditions, operations)
}

// transact commits the write and the operations that go with it under the conditions. It may append to
// both slices in place.
func (l *Ledger) transact(ctx context.Context, w *write, conditions []clientv3.Cmp, operations []clientv3.Op) (landing,
	error) {
	unchanged := clientv3.Compare(clientv3.ModRevision(w.key), "=", w.expected)
	response, err := l.client.KV.Txn(ctx).
		If(append(conditions, unchanged)...).
		Then(append(operations, w.op)...).
		Else(clientv3.OpGet(w.key)).Commit()
	if err != nil {
		return landing{}, err
	}
	if !response.Succeeded {
		return landingOf(response.Responses[0], w.expected), nil
	}
	return landing{outcome: outcome{succeeded: true, revision: response.Header.Revision}}, nil
}

// landingOf returns the landing of a transaction that didn't hold. stored is its object.
func landingOf(stored *etcdserverpb.ResponseOp, expected int64) landing {
	var result landing
	var present int64
	if kvs := stored.GetResponseRange().Kvs; len(kvs) == 1 {
		result.current, present = kvs[0], kvs[0].ModRevision
	}
	result.conflict = present != expected
	return result
}

// admit returns the quotas as the change leaves them, or the refusal. It leaves out a quota that is
// itself written.
func (w *write) admit(change quota.Change, list *quotaList) ([]*corev1.ResourceQuota, error) {
	w.on = slices.DeleteFunc(list.without(w.key).objects(), func(q *corev1.ResourceQuota) bool {
		return w.stated[q.UID] != nil
	})
	if w.enforced != nil {
		return change.Admit(w.on, w.enforced.Limited)
	}
	return change.Apply(w.on), nil
}

// commitQuota writes or deletes a quota itself. It has the turn and nothing is under way, and
// before the answer goes out a new limit has its usage, and a usage that was written by hand is
// mended.
func (l *Ledger) commitQuota(ctx context.Context, namespace string, w *write) (outcome, error) {
	change, err := w.change(ctx)
	if err != nil {
		return outcome{}, err
	}
	a := l.account(namespace)
	if err := a.wait(ctx); err != nil {
		return outcome{}, err
	}
	defer a.done()
	s, prefix := l.quotas(namespace)
	sent := w.op
	for {
		if err := l.refresh(ctx, namespace, a); err != nil {
			return outcome{}, err
		}
		stored := a.tip
		a.tip = nil
		restated, err := s.restate(ctx, w.key, sent, stored)
		if err != nil {
			return outcome{}, err
		}
		if w.op = sent; restated.quota != nil {
			w.op = restated.put()
		}
		others := stored.without(w.key)
		moved, refusal := w.admit(change, others)
		if refusal != nil {
			return outcome{}, w.enforced.ReportRefused(change, w.on, refusal)
		}
		_, writes, err := others.after(ctx, s, moved)
		if err != nil {
			return outcome{}, err
		}
		result, err := l.transact(ctx, w, others.holds(prefix), writes)
		if err != nil || result.conflict {
			return result.outcome, err
		}
		if result.succeeded {
			w.enforced.ReportAdmitted(change, w.on)
			if quota.HasStatedUsage(ctx) {
				err = l.recordUnseen(ctx, namespace, func(e quotaEntry) bool { return e.key == w.key })
			}
			restated.revision = result.revision
			setAnswer(ctx, restated)
			// The write is done. The first write that needs the account repeats what fails now, and
			// so does the controller.
			if l.refresh(ctx, namespace, a) == nil {
				setAnswer(ctx, a.tip.entry(w.key))
			}
			return result.outcome, err
		}
	}
}

// namespaceAndName reads prefix/namespace/name; ok is false for keys that are not those of an
// object in a namespace.
func namespaceAndName(prefix, key string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, "/")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// keyPrefix returns the prefix of the keys of a store's objects.
func keyPrefix(prefix, resourcePrefix string) string {
	return path.Join("/", prefix, resourcePrefix) + "/"
}
