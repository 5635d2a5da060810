package storage

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/quota"
)

// commitTimeout bounds a transaction that others may wait for after its own request has ended.
const commitTimeout = 30 * time.Second

var quotaResource = schema.GroupResource{Resource: "resourcequotas"}

// Ledger keeps the usage that ResourceQuotas show equal to what is stored, at every revision of the store: whatever write
// changes what a namespace uses moves status.used of its quotas in the same etcd transaction. So nothing is ever
// admitted beyond a limit, no charge outlives a write that failed, and neither depends on how many servers there are.
//
// A transaction holds only if the namespace's quotas are in the state on which it was decided. Where they are not, because
// another server or a person was faster, it is decided again. No request is refused on what the ledger merely
// expects: it reads once more before it says no.
//
// Each object has a transaction, and so a revision, of its own. Several objects of a kind at one revision would be
// cheaper, but Kubernetes' watches take a revision for one change: a watch that is resumed after the first of them
// would never show the others, and a list that waits for the revision could be answered before they are in the cache.
type Ledger struct {
	backend *Backend

	mu       sync.Mutex
	accounts map[string]*account // by namespace
	stores   map[schema.GroupResource]*accounted
}

func newLedger(backend *Backend) *Ledger {
	return &Ledger{backend: backend, accounts: map[string]*account{}, stores: map[schema.GroupResource]*accounted{}}
}

func (l *Ledger) account(namespace string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[namespace]
	if a == nil {
		a = newAccount()
		l.accounts[namespace] = a
	}
	return a
}

// forget drops what is known of a namespace that has gone.
func (l *Ledger) forget(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.accounts, namespace)
}

func (l *Ledger) store(resource schema.GroupResource) *accounted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stores[resource]
}

// quotas is the store of quotas, and where in it a namespace's are.
func (l *Ledger) quotas(namespace string) (s *accounted, prefix string) {
	s = l.store(quotaResource)
	return s, s.prefix + namespace + "/"
}

// read reads the namespace's quotas.
func (l *Ledger) read(ctx context.Context, namespace string) (*quotaList, error) {
	s, prefix := l.quotas(namespace)
	response, err := l.backend.Client().KV.Get(ctx, prefix, clientv3.WithPrefix())
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
	// change computes what the write means to quotas. It isn't asked where there are none.
	change   func(context.Context) (quota.Change, error)
	enforced *quota.Enforcement
}

// outcome of a transaction: either succeeded, or current is the object's present state.
type outcome struct {
	succeeded bool
	revision  int64
	current   *mvccpb.KeyValue
}

// commit makes the write and all that it moves one transaction.
func (l *Ledger) commit(ctx context.Context, namespace string, w write) (outcome, error) {
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
	if !change.Moves() {
		result, err := l.transact(ctx, w, nil, nil)
		return result.outcome, err
	}
	return l.charge(ctx, namespace, a, w, change)
}

// commitUnbounded commits a write in a namespace that has no quotas. Where it has some, nothing is decided.
func (l *Ledger) commitUnbounded(ctx context.Context, namespace string, a *account, w write) (result outcome, decided bool, err error) {
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

// charge moves the quotas with the write.
func (l *Ledger) charge(ctx context.Context, namespace string, a *account, w write, change quota.Change) (outcome, error) {
	settled := false
	for {
		flight, refusal, err := l.decide(ctx, namespace, a, w, change, settled)
		if err != nil {
			return outcome{}, err
		}
		if refusal != nil && settled {
			return outcome{}, w.enforced.Refuse(refusal)
		}
		if refusal != nil {
			// There may be no room only for what is under way and may fail yet. Where there is none in what is stored
			// nobody's turn is needed to say so.
			if refusal, err = l.full(ctx, namespace, w, change); err != nil {
				return outcome{}, err
			}
			if refusal != nil {
				return outcome{}, w.enforced.Refuse(refusal)
			}
			settled = true
			continue
		}
		select {
		case result := <-flight:
			if result.err != nil || result.succeeded || result.conflict {
				return result.outcome, result.err
			}
		case <-ctx.Done():
			// It lands by itself.
			return outcome{}, ctx.Err()
		}
	}
}

// full returns why the write must not be, on what is stored now; nil where it may be or that isn't known.
func (l *Ledger) full(ctx context.Context, namespace string, w write, change quota.Change) (refusal, err error) {
	list, err := l.read(ctx, namespace)
	if err != nil || slices.ContainsFunc(list.entries, func(e quotaEntry) bool { return !quota.Known(e.quota) }) {
		return nil, err
	}
	_, refusal = w.admit(change, list)
	return refusal, nil
}

// decide decides the write in its turn, and sends off its transaction. With settled, it waits for what is under way, and decides on
// what is stored then.
func (l *Ledger) decide(ctx context.Context, namespace string, a *account, w write, change quota.Change, settled bool) (flight <-chan landing, refusal, err error) {
	if err := a.wait(ctx); err != nil {
		return nil, nil, err
	}
	defer a.done()
	if settled || a.tip == nil || a.stale.Load() {
		if err := l.refresh(ctx, namespace, a); err != nil {
			return nil, nil, err
		}
	}
	moved, refusal := w.admit(change, a.tip)
	if refusal != nil {
		return nil, refusal, nil
	}
	s, prefix := l.quotas(namespace)
	next, writes, err := a.tip.after(moved, s.encoder(ctx))
	if err != nil {
		return nil, nil, err
	}
	conditions := a.tip.holds(prefix)
	a.tip = next
	return l.send(ctx, a, w, conditions, writes), nil, nil
}

// landing is how a transaction ended.
type landing struct {
	outcome
	// conflict says that the object itself was not as expected. If neither that nor success, its quotas were not.
	conflict bool
	err      error
}

// send starts a transaction and returns once it is under way. Even where the request ends, the transaction lands: those behind
// it count on it.
func (l *Ledger) send(ctx context.Context, a *account, w write, conditions []clientv3.Cmp, operations []clientv3.Op) <-chan landing {
	flight, started := make(chan landing, 1), make(chan struct{})
	a.launch()
	go func() {
		// Who waits for this gets the processor when this goroutine has handed its proposal over and waits itself, so
		// etcd gets transactions in the order in which they were decided, or nearly always does.
		started <- struct{}{}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		result, err := l.transact(ctx, w, conditions, operations)
		result.err = err
		if !result.succeeded {
			a.stale.Store(true)
		}
		a.land()
		flight <- result
	}()
	<-started
	return flight
}

// transact commits the write and the operations that go with it under the conditions.
func (l *Ledger) transact(ctx context.Context, w write, conditions []clientv3.Cmp, operations []clientv3.Op) (landing, error) {
	unchanged := clientv3.Compare(clientv3.ModRevision(w.key), "=", w.expected)
	response, err := l.backend.Client().KV.Txn(ctx).
		If(append([]clientv3.Cmp{unchanged}, conditions...)...).
		Then(append([]clientv3.Op{w.op}, operations...)...).
		Else(clientv3.OpGet(w.key)).Commit()
	if err != nil {
		return landing{}, err
	}
	result := landing{outcome: outcome{succeeded: response.Succeeded, revision: response.Header.Revision}}
	if !response.Succeeded {
		var present int64
		if kvs := response.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 {
			result.current, present = kvs[0], kvs[0].ModRevision
		}
		result.conflict = present != w.expected
	}
	return result, nil
}

// admit returns the quotas as the change leaves them, or why it must not be. Of a quota that is written itself the write says all.
func (w write) admit(change quota.Change, list *quotaList) ([]*corev1.ResourceQuota, error) {
	others := list.without(w.key).objects()
	if w.enforced != nil {
		return change.Admit(others, w.enforced.Limited)
	}
	return change.Apply(others), nil
}

// refresh reads the quotas once nothing is under way, and gives those a usage that show none yet: new ones, and those whose
// hard limits have got a new name. Until a quota shows its usage no server moves it, and no write that would move
// it is committed, so what is stored now is what was stored when the quota changed.
func (l *Ledger) refresh(ctx context.Context, namespace string, a *account) error {
	if err := a.settle(ctx); err != nil {
		return err
	}
	for {
		list, err := l.read(ctx, namespace)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.entries, func(e quotaEntry) bool { return !quota.Known(e.quota) })
		if i < 0 {
			a.tip = list
			a.last.Store(list)
			return nil
		}
		if err := l.recount(ctx, namespace, list.entries[i]); err != nil {
			return err
		}
	}
}

// recount makes a quota's status what it should be, unless the quota is not in that state any more.
func (l *Ledger) recount(ctx context.Context, namespace string, entry quotaEntry) error {
	total, err := l.total(ctx, namespace, entry.quota)
	if err != nil {
		return fmt.Errorf("usage of quota %s/%s: %w", namespace, entry.quota.Name, err)
	}
	counted := entry
	counted.quota = entry.quota.DeepCopy()
	counted.quota.Status = corev1.ResourceQuotaStatus{Hard: entry.quota.Spec.Hard.DeepCopy(), Used: total}
	if apiequality.Semantic.DeepEqual(counted.quota.Status, entry.quota.Status) {
		return nil
	}
	s, _ := l.quotas(namespace)
	if counted.data, err = s.encoder(ctx)(counted.key, counted.quota); err != nil {
		return err
	}
	_, err = l.backend.Client().KV.Txn(ctx).If(entry.holds()).Then(counted.put()).Commit()
	return err
}

// total is what the namespace's objects use of q, as of one revision.
func (l *Ledger) total(ctx context.Context, namespace string, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	var costs []*quota.Cost
	var revision int64
	for _, resource := range quota.Resources(q) {
		s := l.store(resource)
		if s == nil {
			continue // a kind that is not served has no objects
		}
		response, err := l.backend.Client().KV.Get(ctx, s.prefix+namespace+"/", clientv3.WithPrefix(), clientv3.WithRev(revision))
		if err != nil {
			return nil, err
		}
		if revision == 0 {
			revision = response.Header.Revision
		}
		for _, kv := range response.Kvs {
			cost, err := s.cost(ctx, string(kv.Key), kv.Value)
			if err != nil {
				return nil, err
			}
			costs = append(costs, cost)
		}
	}
	return quota.Total(q, slices.Values(costs)), nil
}

// commitQuota writes or deletes a quota itself. It has the turn and nothing is under way, and before the answer goes out
// a new limit has its usage, and a status that was written by hand is mended.
func (l *Ledger) commitQuota(ctx context.Context, namespace string, w write) (outcome, error) {
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
	for {
		if err := l.refresh(ctx, namespace, a); err != nil {
			return outcome{}, err
		}
		others := a.tip.without(w.key)
		a.tip = nil
		moved, refusal := w.admit(change, others)
		if refusal != nil {
			return outcome{}, w.enforced.Refuse(refusal)
		}
		_, writes, err := others.after(moved, s.encoder(ctx))
		if err != nil {
			return outcome{}, err
		}
		result, err := l.transact(ctx, w, others.holds(prefix), writes)
		if err != nil || result.conflict {
			return result.outcome, err
		}
		if result.succeeded {
			// The write is done. What fails now is made up for by the first write that needs it, and by the controller.
			if list, err := l.read(ctx, namespace); err == nil {
				for _, entry := range list.entries {
					if entry.key == w.key {
						_ = l.recount(ctx, namespace, entry)
					}
				}
			}
			return result.outcome, nil
		}
	}
}

// namespaceAndName reads prefix/namespace/name; ok is false for keys that are not those of an object in a namespace.
func namespaceAndName(prefix, key string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, "/")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// keyPrefix is where a store keeps its objects.
func keyPrefix(prefix, resourcePrefix string) string {
	return path.Join("/", prefix, resourcePrefix) + "/"
}
