// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
)

// pageSize is the number of objects that are read from etcd at a time.
const pageSize = 1000

// refresh reads the quotas once nothing is under way, and gives those a usage that show none yet:
// new ones, those whose hard limits have got a new name, and those of which somebody has written
// what restate doesn't believe. Until a quota shows its usage no server moves it, and no write that
// would move it is committed.
//
// It counts all quotas at once. If another server moves one of them meanwhile, it counts only those
// that nobody moves.
func (l *Ledger) refresh(ctx context.Context, namespace string, a *account) error {
	if err := a.settle(ctx); err != nil {
		return err
	}
	for first := true; ; first = false {
		list, err := l.read(ctx, namespace)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.entries, quotaEntry.unknown)
		switch {
		case i < 0:
			a.tip = list
			a.last.Store(list)
			return nil
		case first:
			_, err = l.countAll(ctx, namespace, l.KeepStatus)
		default:
			err = l.countOne(ctx, list.entries[i], l.census(ctx, namespace, list.revision, time.Time{}))
		}
		if err != nil {
			return err
		}
	}
}

// countAll corrects the status of all quotas of a namespace, and gives back what pods used that have ended
// by now. done is false if a quota has changed meanwhile. With keep, usage that the quotas show stays as it
// is, unless there are such pods.
func (l *Ledger) countAll(ctx context.Context, namespace string, keep bool) (done bool, err error) {
	list, err := l.read(ctx, namespace)
	if err != nil {
		return false, err
	}
	_, prefix := l.quotas(namespace)
	c := l.census(ctx, namespace, list.revision, l.now())
	operations, err := c.corrections(ctx, list, keep)
	if err == nil && keep && c.late {
		operations, err = c.corrections(ctx, list, false)
	}
	if err != nil {
		return false, err
	}
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(prefix).WithPrefix(), "<", list.revision+1)}
	for _, entry := range list.entries {
		conditions = append(conditions, entry.isOf())
	}
	if c.late {
		ended, err := l.setEnded(namespace, c.ended)
		if err != nil {
			return false, err
		}
		operations = append(operations, ended)
	}
	if len(operations) == 0 {
		return true, nil
	}
	response, err := l.client.KV.Txn(ctx).If(append(conditions, c.others.outside()...)...).Then(operations...).Commit()
	return err == nil && response.Succeeded, err
}

// corrections returns the writes that correct the quotas.
func (c *census) corrections(ctx context.Context, list *quotaList, keep bool) (writes []clientv3.Op, err error) {
	for _, entry := range list.entries {
		counted, err := c.of(ctx, entry, keep)
		if err != nil {
			return nil, err
		}
		if counted.data != nil {
			writes = append(writes, counted.put())
		}
	}
	return writes, nil
}

// countOne corrects a quota's status. If the quota has changed since it was read, nothing happens.
func (l *Ledger) countOne(ctx context.Context, entry quotaEntry, c *census) error {
	counted, err := c.of(ctx, entry, l.KeepStatus)
	if err != nil || counted.data == nil {
		return err
	}
	_, err = l.client.KV.Txn(ctx).If(append(c.others.outside(), entry.isOf())...).Then(counted.put()).Commit()
	return err
}

// isOf returns the condition that the quota hasn't been written since it was read.
//
// It is the quota's revision that must be the same, not only its content: while that lasts, nothing
// that would move the quota has been committed, so what is counted at any revision since is true
// when the status is written. A device class moves no quota; those that were looked at must be the
// same, too, and so must the set of pods that have ended. A pod whose claims cost something else afterwards causes another count.
func (e quotaEntry) isOf() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(e.key), "=", e.revision)
}

// of returns the quota as it is counted, without data if its status is right. With keep, only what its
// status lacks is counted.
func (c *census) of(ctx context.Context, entry quotaEntry, keep bool) (quotaEntry, error) {
	counted := quotaEntry{key: entry.key, quota: entry.quota.DeepCopy()}
	total, err := c.total(ctx, entry.quota)
	if err != nil {
		return counted, fmt.Errorf("usage of quota %s/%s: %w", c.namespace, entry.quota.Name, err)
	}
	unseen, err := c.ledger.unseenIn(ctx, c.namespace)
	if err != nil {
		return counted, err
	}
	unseen.addTo(total, entry.quota.UID)
	counted.quota.Status = corev1.ResourceQuotaStatus{Hard: entry.quota.Spec.Hard.DeepCopy(), Used: total}
	if keep {
		maps.Copy(counted.quota.Status.Hard, entry.quota.Status.Hard)
		maps.Copy(counted.quota.Status.Used, entry.quota.Status.Used)
	}
	if apiequality.Semantic.DeepEqual(counted.quota.Status, entry.quota.Status) {
		return counted, nil
	}
	s, _ := c.ledger.quotas(c.namespace)
	return counted, s.encode(ctx, &counted)
}

// census holds the cost of a namespace's objects as of one revision. It reads each resource once,
// for any number of quotas.
type census struct {
	ledger    *Ledger
	namespace string
	revision  int64
	// ended are the pods that have ended by now, or that the quotas no longer count. late reports whether
	// there are some that the quotas still count. If now is zero, there are none of these.
	now   time.Time
	ended uids
	late  bool

	costs  map[schema.GroupResource][]*quota.Cost
	others *others
}

func (l *Ledger) census(ctx context.Context, namespace string, revision int64, now time.Time) *census {
	return &census{ledger: l, namespace: namespace, revision: revision, now: now, ended: uids{},
		costs: map[schema.GroupResource][]*quota.Cost{}, others: l.others(ctx, revision)}
}

// total returns what the namespace's objects use of q.
func (c *census) total(ctx context.Context, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	var costs []*quota.Cost
	for _, resource := range quota.Resources(q) {
		if _, counted := c.costs[resource]; !counted {
			found, err := c.count(ctx, resource)
			if err != nil {
				return nil, err
			}
			c.costs[resource] = found
		}
		costs = append(costs, c.costs[resource]...)
	}
	return quota.Total(q, slices.Values(costs)), nil
}

// count returns the costs of all objects of a resource.
func (c *census) count(ctx context.Context, resource schema.GroupResource) ([]*quota.Cost, error) {
	var prefix string
	switch s := c.ledger.store(resource); {
	case s != nil && quota.DependsOnContent(resource):
		return c.weigh(ctx, s)
	case s != nil:
		prefix = s.prefix
	case resource.Group != "":
		// Custom resources get their store with the first request for them, and may have objects
		// from another server, or from before this one was started. They are all stored by group
		// and name.
		prefix = keyPrefix(c.ledger.prefix, resource.Group+"/"+resource.Resource)
	default:
		return nil, nil // a kind that is not served has no objects
	}
	cost, err := quota.CostOf(resource, &metav1.PartialObjectMetadata{})
	if err != nil {
		return nil, err
	}
	response, err := c.ledger.client.KV.Get(ctx, prefix+c.namespace+"/", clientv3.WithPrefix(),
		clientv3.WithRev(c.revision), clientv3.WithCountOnly())
	if err != nil {
		return nil, err
	}
	return slices.Repeat([]*quota.Cost{cost}, int(response.Count)), nil
}

// weigh returns the costs of all objects of a store whose costs depend on what is in them.
func (c *census) weigh(ctx context.Context, s *accounted) ([]*quota.Cost, error) {
	var costs []*quota.Cost
	_, err := c.ledger.each(ctx, s.prefix+c.namespace+"/", c.revision, func(kv *mvccpb.KeyValue) error {
		object := quota.NewObject(s.resource)
		if err := s.decode(ctx, string(kv.Key), kv.Value, object); err != nil {
			return err
		}
		cost, err := s.costOf(object, c.others)
		if err != nil {
			return err
		}
		if pod, ok := object.(*corev1.Pod); ok && cost.DependsOnTime() {
			now := cost.CostAt(c.now)
			c.late = c.late || now != cost
			if cost = now; cost.ExpiresAt().IsZero() {
				c.ended[pod.UID] = true
			}
		}
		costs = append(costs, cost)
		return nil
	})
	return costs, err
}

// each calls f with every key below the prefix as of a revision, which it returns. A revision of 0 means
// the present one.
func (l *Ledger) each(ctx context.Context, prefix string, revision int64, f func(*mvccpb.KeyValue) error) (int64,
	error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		response, err := l.client.KV.Get(ctx, from, clientv3.WithRange(end),
			clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = response.Header.Revision
		}
		for _, kv := range response.Kvs {
			if err := f(kv); err != nil {
				return 0, err
			}
		}
		if !response.More {
			return revision, nil
		}
		from = string(response.Kvs[len(response.Kvs)-1].Key) + "\x00"
	}
}
