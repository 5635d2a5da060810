// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod whose grace period is over uses nothing, although it may still be stored. What says so is not the
// time, by which servers whose clocks differ disagree, but a stored set of pods: those that the quotas of
// their namespace no longer count. Only countAll writes it, in the transaction that gives back what the pods
// used. So at every revision all servers agree.

// afterAll is after the end of every grace period.
var afterAll = time.Unix(1<<40, 0)

// uids is a set of pods.
type uids map[types.UID]bool

// endedKey returns the key of the pods of a namespace that have ended.
func (l *Ledger) endedKey(namespace string) string {
	return keyPrefix(l.prefix, "gatehouse.dev/ended") + namespace
}

// setEnded returns the write of the pods of a namespace that have ended.
func (l *Ledger) setEnded(namespace string, pods uids) (clientv3.Op, error) {
	data, err := json.Marshal(slices.Sorted(maps.Keys(pods)))
	return clientv3.OpPut(l.endedKey(namespace), string(data)), err
}

// forgetEnded deletes what is stored of a namespace that was deleted at a revision, but not what is stored of
// a new one with its name. If it fails, a key is left that does no harm: no later pod has the UIDs in it.
func (l *Ledger) forgetEnded(ctx context.Context, namespace string, revision int64) {
	key := l.endedKey(namespace)
	_, _ = l.client.KV.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "<", revision)).
		Then(clientv3.OpDelete(key)).Commit()
}

// endedIn returns the pods of a namespace that have ended. The condition is that it stays so.
func (o *others) endedIn(namespace string) (uids, error) {
	if pods, known := o.ended[namespace]; known {
		return pods, nil
	}
	key := o.ledger.endedKey(namespace)
	response, err := o.ledger.client.KV.Get(o.ctx, key, clientv3.WithRev(o.revision))
	if err != nil {
		return nil, err
	}
	pods, revision := uids{}, int64(0)
	if len(response.Kvs) == 1 {
		var list []types.UID
		if err := json.Unmarshal(response.Kvs[0].Value, &list); err != nil {
			return nil, fmt.Errorf("etcd's key %s: %w", key, err)
		}
		for _, uid := range list {
			pods[uid] = true
		}
		revision = response.Kvs[0].ModRevision
	}
	o.ended[namespace] = pods
	o.conditions = append(o.conditions, clientv3.Compare(clientv3.ModRevision(key), "=", revision))
	return pods, nil
}

// timeOf returns the time at which a pod is to be measured: before the end of its grace period, unless it
// has ended.
func (o *others) timeOf(pod *corev1.Pod) (time.Time, error) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, nil
	}
	ended, err := o.endedIn(pod.Namespace)
	if err != nil || !ended[pod.UID] {
		return time.Time{}, err
	}
	return afterAll, nil
}
