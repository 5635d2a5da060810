// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/quota"
)

// change is a version of a key.
type change struct {
	key string
	version
}

// usage is what is stored in the namespace Quotas as of a revision.
type usage struct {
	objects map[string]runtime.Object
	costs   map[string]*quota.Cost
	quotas  map[string]*corev1.ResourceQuota
	// ended are the pods that the quotas no longer count, although they may still be stored.
	ended []types.UID
}

// checkQuotas checks at every revision that each quota of the namespace Quotas shows the usage of the
// stored objects. The usage may be above a limit only because the limit was lowered, and may not rise
// then.
func (h *History) checkQuotas(s *store, r *Report) {
	var changes []change
	for key, versions := range s.versions {
		if key == endedKey || strings.Contains(key, "/"+Quotas+"/") {
			for _, v := range versions {
				changes = append(changes, change{key, v})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	now := &usage{objects: map[string]runtime.Object{}, costs: map[string]*quota.Cost{},
		quotas: map[string]*corev1.ResourceQuota{}}
	before := map[string]corev1.ResourceList{} // by quota
	for i, c := range changes {
		if err := now.apply(c); err != nil {
			r.fail("quotas", "revision %d: %s: %v", c.revision, c.key, err)
		}
		if c.key == endedKey {
			r.count("revisions at which pods ended")
		}
		if i+1 < len(changes) && changes[i+1].revision == c.revision {
			continue // the revision isn't complete
		}
		if len(now.quotas) > 0 {
			r.count("revisions with quotas")
		}
		for name, q := range now.quotas {
			total := quota.Total(q, maps.Values(now.costs))
			checkQuota(r, c.revision, q, total, before[name])
			before[name] = total
		}
	}
}

// checkQuota checks one quota at one revision. The totals are of the stored objects, now and at the
// revision before.
func checkQuota(r *Report, revision int64, q *corev1.ResourceQuota, total, before corev1.ResourceList) {
	for resource, limit := range q.Spec.Hard {
		used, isShown := q.Status.Used[resource]
		sum, was := total[resource], before[resource]
		if before == nil {
			was = sum
		}
		switch {
		case !isShown && sum.Cmp(was) != 0:
			r.fail("quotas", "revision %d: quota %s doesn't show yet how much %s is used, and that went from %s to %s",
				revision, q.Name, resource, was.String(), sum.String())
		case isShown && used.Cmp(sum) != 0:
			r.fail("quotas", "revision %d: quota %s shows %s of %s, stored are %s", revision, q.Name, used.String(),
				resource, sum.String())
		case sum.Cmp(limit) > 0 && sum.Cmp(was) > 0:
			r.fail("quotas", "revision %d: %s rises from %s to %s, quota %s allows %s", revision, resource, was.String(),
				sum.String(), q.Name, limit.String())
		}
	}
}

// apply makes a change.
func (u *usage) apply(c change) error {
	if c.key == endedKey {
		u.ended = c.ended
		for key, object := range u.objects {
			if err := u.measure(key, object); err != nil {
				return err
			}
		}
		return nil
	}
	delete(u.objects, c.key)
	delete(u.costs, c.key)
	switch object := c.object.(type) {
	case *corev1.ResourceQuota:
		u.quotas[c.key] = object
		return nil
	case nil:
		delete(u.quotas, c.key)
		return nil
	}
	u.objects[c.key] = c.object
	return u.measure(c.key, c.object)
}

// measure measures an object.
func (u *usage) measure(key string, object runtime.Object) error {
	now := time.Time{} // before all grace periods are over
	if pod, ok := object.(*corev1.Pod); ok && slices.Contains(u.ended, pod.UID) {
		now = time.Unix(1<<40, 0) // after them
	}
	resource := corev1.Resource(strings.Split(strings.TrimPrefix(key, keyPrefix), "/")[0])
	cost, err := quota.Meter{Now: func() time.Time { return now }}.CostOf(resource, object)
	u.costs[key] = cost
	return err
}
