// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// unseen is for servers that have another cluster's quotas without its objects (see
// quota.WithStatedUsage). If such a quota states more usage than the stored objects account for,
// the difference is used by objects elsewhere. It stays, and is added whenever the quota is
// counted. An object that is stored in such a context is one of those that the stated usage
// includes, so its cost moves from there to here.
//
// The difference is stored beside the objects, so that restoring the store restores it too. any
// reports whether there is some. If there never is, as in every ordinary server, nothing reads it.
type unseen struct{ any atomic.Bool }

// unseenUse is the usage by objects that aren't there, by the UIDs of quotas. It can be negative,
// if a quota was said to use less than there is.
type unseenUse map[types.UID]corev1.ResourceList

// addTo adds to what a quota's objects use what those use that aren't there.
func (u unseenUse) addTo(total corev1.ResourceList, quota types.UID) {
	for name, amount := range u[quota] {
		used, limited := total[name]
		if !limited {
			continue
		}
		if used.Add(amount); used.Sign() < 0 {
			used = resource.Quantity{Format: used.Format}
		}
		total[name] = used
	}
}

// storedUnseen is the stored usage of one quota.
type storedUnseen struct {
	UID  types.UID           `json:"uid"`
	Used corev1.ResourceList `json:"used"`
}

// unseenPrefix returns the prefix of the keys of the unseen usage of a namespace's quotas.
func (l *Ledger) unseenPrefix(namespace string) string {
	return keyPrefix(l.prefix, "gatehouse.dev/unseen") + namespace + "/"
}

// unseenIn returns the unseen usage of the quotas of a namespace.
func (l *Ledger) unseenIn(ctx context.Context, namespace string) (unseenUse, error) {
	if !l.unseen.any.Load() {
		return nil, nil
	}
	response, err := l.client.KV.Get(ctx, l.unseenPrefix(namespace), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	all := unseenUse{}
	for _, kv := range response.Kvs {
		var one storedUnseen
		if err := json.Unmarshal(kv.Value, &one); err != nil {
			return nil, err
		}
		all[one.UID] = one.Used
	}
	return all, nil
}

// recordUnseen stores, for some quotas of a namespace, the part of their stated usage that the stored
// objects don't account for. A quota that states no usage, such as a new one, is counted like every
// other.
func (l *Ledger) recordUnseen(ctx context.Context, namespace string, which func(quotaEntry) bool) error {
	list, err := l.read(ctx, namespace)
	if err != nil {
		return err
	}
	_, prefix := l.quotas(namespace)
	all := l.census(ctx, namespace, list.revision, time.Time{})
	for _, entry := range list.entries {
		if !which(entry) || len(entry.quota.Status.Used) == 0 {
			continue
		}
		total, err := all.total(ctx, entry.quota)
		if err != nil {
			return err
		}
		one := storedUnseen{entry.quota.UID, corev1.ResourceList{}}
		for name, used := range entry.quota.Status.Used {
			if counted, limited := total[name]; limited {
				left := used.DeepCopy()
				left.Sub(counted)
				one.Used[name] = left
			}
		}
		data, err := json.Marshal(one)
		if err != nil {
			return err
		}
		l.unseen.any.Store(true)
		key := l.unseenPrefix(namespace) + strings.TrimPrefix(entry.key, prefix)
		if _, err := l.client.KV.Put(ctx, key, string(data)); err != nil {
			return err
		}
	}
	return nil
}
