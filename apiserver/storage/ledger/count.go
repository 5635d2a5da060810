// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"slices"

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
func (l *Ledger) refresh(ctx context.Context, namespace string, a *account) error {
	if err := a.settle(ctx); err != nil {
		return err
	}
	for {
		list, err := l.read(ctx, namespace)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.entries, quotaEntry.unknown)
		if i < 0 {
			a.tip = list
			a.last.Store(list)
			return nil
		}
		if _, err := l.recount(ctx, list.entries[i], l.census(ctx, namespace, list.revision)); err != nil {
			return err
		}
	}
}

// recount corrects a quota's status. done is false if the quota has changed since it was read.
//
// It is the quota's revision that must be the same, not only its content: while that lasts, nothing
// that would move the quota has been committed, so what is counted at any revision since is true
// when the status is written. A device class moves no quota; those that were looked at must be the
// same, too. A pod whose claims cost something else afterwards causes another count.
func (l *Ledger) recount(ctx context.Context, entry quotaEntry, c *census) (done bool, err error) {
	total, err := c.total(ctx, entry.quota)
	if err != nil {
		return false, fmt.Errorf("usage of quota %s/%s: %w", c.namespace, entry.quota.Name, err)
	}
	unseen, err := l.unseenIn(ctx, c.namespace)
	if err != nil {
		return false, err
	}
	unseen.addTo(total, entry.quota.UID)
	counted := quotaEntry{key: entry.key, quota: entry.quota.DeepCopy()}
	counted.quota.Status = corev1.ResourceQuotaStatus{Hard: entry.quota.Spec.Hard.DeepCopy(), Used: total}
	if apiequality.Semantic.DeepEqual(counted.quota.Status, entry.quota.Status) {
		return true, nil
	}
	s, _ := l.quotas(c.namespace)
	if err := s.encode(ctx, &counted); err != nil {
		return false, err
	}
	response, err := l.client.KV.Txn(ctx).
		If(append(c.others.ofClasses(), clientv3.Compare(clientv3.ModRevision(entry.key), "=", entry.revision))...).
		Then(counted.put()).Commit()
	return err == nil && response.Succeeded, err
}

// census holds the cost of a namespace's objects as of one revision. It reads each resource once,
// for any number of quotas.
type census struct {
	ledger    *Ledger
	namespace string
	revision  int64
	costs     map[schema.GroupResource][]*quota.Cost
	others    *others
}

func (l *Ledger) census(ctx context.Context, namespace string, revision int64) *census {
	return &census{ledger: l, namespace: namespace, revision: revision,
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
		cost, err := s.cost(ctx, string(kv.Key), kv.Value, c.others)
		costs = append(costs, cost)
		return err
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
