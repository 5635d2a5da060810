// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// judgedPods bounds the pods of a workload that are judged one by one. They are alike, so the
// others differ only in the remaining quota, which is counted.
const judgedPods = 100

// makeEach creates the pods of a workload one after the other, by calling make with their numbers,
// until one is refused: then make returns true. If there are many, it creates the first ones, and
// then only the first one for which quotas have no room, if there is one.
func (r *Reviewer) makeEach(ctx context.Context, pods *Pods, namespace string, make func(i int) (ended bool,
	err error)) error {
	var before, cost map[string]corev1.ResourceList
	for i := 0; i < pods.Wanted; i++ {
		if i >= judgedPods {
			n, err := r.chargePods(ctx, namespace, cost, pods.Wanted-i)
			if err != nil {
				return err
			}
			pods.Admitted += n
			if i += n; i == pods.Wanted {
				return nil
			}
		}
		measured := i == judgedPods-1 && pods.Wanted > judgedPods
		if measured {
			var err error
			if before, err = r.usage(ctx, namespace); err != nil {
				return err
			}
		}
		if ended, err := make(i); ended || err != nil {
			return err
		}
		if measured {
			after, err := r.usage(ctx, namespace)
			if err != nil {
				return err
			}
			cost = map[string]corev1.ResourceList{}
			for name, used := range after {
				cost[name] = corev1.ResourceList{}
				for resource, now := range used {
					now.Sub(before[name][resource])
					cost[name][resource] = now
				}
			}
		}
	}
	return nil
}

// usage returns the usage of a namespace's quotas, by their names.
func (r *Reviewer) usage(ctx context.Context, namespace string) (map[string]corev1.ResourceList, error) {
	quotas, err := r.quotas(ctx, namespace)
	if err != nil {
		return nil, err
	}
	used := map[string]corev1.ResourceList{}
	for name, quota := range quotas {
		used[name] = quota.Status.Used
	}
	return used, nil
}

// chargePods charges quotas for as many pods as they have room for, n at most, and returns their
// number. cost is the cost of one pod.
func (r *Reviewer) chargePods(ctx context.Context, namespace string, cost map[string]corev1.ResourceList, n int) (int,
	error) {
	quotas, err := r.quotas(ctx, namespace)
	if err != nil {
		return 0, err
	}
	for name, quota := range quotas {
		for resource, hard := range quota.Status.Hard {
			n = countFitting(hard, quota.Status.Used[resource], cost[name][resource], n)
		}
	}
	if n == 0 {
		return 0, nil
	}
	for name, quota := range quotas {
		charged := false
		for resource, one := range cost[name] {
			if one.Sign() <= 0 {
				continue
			}
			used := quota.Status.Used[resource]
			one = one.DeepCopy()
			one.Mul(int64(n))
			used.Add(one)
			quota.Status.Used[resource], charged = used, true
		}
		if !charged {
			continue
		}
		if err := r.storeUsage(ctx, quota); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// countFitting returns how many times a cost fits between the usage and a hard limit; at most most.
func countFitting(hard, used, cost resource.Quantity, most int) int {
	if cost.Sign() <= 0 {
		return most
	}
	left := hard.DeepCopy()
	left.Sub(used)
	return sort.Search(most, func(n int) bool {
		more := cost.DeepCopy()
		more.Mul(int64(n) + 1)
		return more.Cmp(left) > 0
	})
}
