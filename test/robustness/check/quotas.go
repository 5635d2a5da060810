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

	"gatehouse.dev/internal/quota"
)

// meter measures objects by a clock that is ahead of all servers' clocks, and slowMeter by one that is
// behind all of them. A client that deletes a pod gives it no time to end. So by the first the pod costs
// nothing from then on, and by the second it costs what it did until it is gone.
var (
	meter     = quota.Meter{Now: func() time.Time { return time.Now().Add(time.Hour) }}
	slowMeter = quota.Meter{Now: func() time.Time { return time.Unix(0, 0) }}
)

// maxExcuse is for how long a quota may be wrong while clocks differ. Within 5 minutes the quota
// controller counts again.
const maxExcuse = 6 * time.Minute

// change is a version of a key.
type change struct {
	key string
	version
}

// usage is what is stored in the namespace Quotas as of a revision.
type usage struct {
	costs  map[string]*quota.Cost
	quotas map[string]*corev1.ResourceQuota
	// ending has the pods that are deleted and not gone.
	ending map[string]bool
	// disputed has the costs of pods of which servers with other clocks disagree whether they have
	// ended, since the last revision at which all quotas were right.
	disputed map[string]*quota.Cost
	// right is when all quotas were right.
	right int64
}

// checkQuotas checks at every revision that each quota of the namespace Quotas shows the usage of the
// stored objects. The usage may be above a limit only because the limit was lowered, and may not rise
// then. While the clocks of servers differ, a quota may be wrong by the pods that are being deleted.
func (h *History) checkQuotas(s *store, r *Report) {
	var changes []change
	for key, versions := range s.versions {
		if strings.Contains(key, "/"+Quotas+"/") {
			for _, v := range versions {
				changes = append(changes, change{key, v})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	now := &usage{costs: map[string]*quota.Cost{}, quotas: map[string]*corev1.ResourceQuota{}, ending: map[string]bool{},
		disputed: map[string]*quota.Cost{}}
	before := map[string]corev1.ResourceList{} // by quota
	for i, c := range changes {
		if err := now.apply(c, h.clocksDiffer(c.seen)); err != nil {
			r.fail("quotas", "revision %d: %s: %v", c.revision, c.key, err)
		}
		if i+1 < len(changes) && changes[i+1].revision == c.revision {
			continue // the revision isn't complete
		}
		if len(now.quotas) > 0 {
			r.count("revisions with quotas")
		}
		isRight := true
		for name, q := range now.quotas {
			total := quota.Total(q, maps.Values(now.costs))
			isRight = now.check(r, c.revision, q, total, before[name]) && isRight
			before[name] = total
		}
		switch {
		case isRight && len(now.ending) == 0:
			clear(now.disputed)
			now.right = c.seen
		case isRight:
		case c.seen-now.right > maxExcuse.Nanoseconds():
			r.fail("quotas", "revision %d: quotas have been wrong for more than %s", c.revision, maxExcuse)
		case len(now.disputed) > 0:
			r.count("revisions at which clocks excuse a quota")
		}
	}
}

// clocksDiffer reports whether there were servers whose clocks differed at a time, or soon after it.
func (h *History) clocksDiffer(at int64) bool {
	const soon = 5 * time.Second
	skews := map[int64]bool{}
	for _, life := range h.Lives {
		if life.Start <= at+soon.Nanoseconds() && at <= life.End {
			skews[life.Skew] = true
		}
	}
	return len(skews) > 1
}

// check checks one quota at one revision, and reports whether it shows just what is stored. The totals
// are of the stored objects, now and at the revision before.
func (u *usage) check(r *Report, revision int64, q *corev1.ResourceQuota, total, before corev1.ResourceList) bool {
	isRight := true
	disputed := quota.Total(q, maps.Values(u.disputed))
	for resource, limit := range q.Spec.Hard {
		used, isShown := q.Status.Used[resource]
		sum, was, excuse := total[resource], before[resource], disputed[resource]
		if before == nil {
			was = sum
		}
		least, most := sum.DeepCopy(), sum.DeepCopy()
		least.Sub(excuse)
		most.Add(excuse)
		if isShown && used.Cmp(sum) != 0 {
			isRight = false
		}
		switch {
		case !isShown && sum.Cmp(was) != 0:
			r.fail("quotas", "revision %d: quota %s doesn't show yet how much %s is used, and that went from %s to %s",
				revision, q.Name, resource, was.String(), sum.String())
		case isShown && (used.Cmp(least) < 0 || used.Cmp(most) > 0):
			r.fail("quotas", "revision %d: quota %s shows %s of %s, stored are %s", revision, q.Name, used.String(),
				resource, sum.String())
		case sum.Cmp(limit) > 0 && sum.Cmp(was) > 0 && excuse.IsZero():
			r.fail("quotas", "revision %d: %s rises from %s to %s, quota %s allows %s", revision, resource, was.String(),
				sum.String(), q.Name, limit.String())
		}
	}
	return isRight
}

// apply makes a change.
func (u *usage) apply(c change, clocksDiffer bool) error {
	delete(u.costs, c.key)
	delete(u.ending, c.key)
	switch object := c.object.(type) {
	case *corev1.ResourceQuota:
		u.quotas[c.key] = object
		return nil
	case nil:
		delete(u.quotas, c.key)
		return nil
	case *corev1.Pod:
		if object.DeletionTimestamp != nil {
			u.ending[c.key] = true
		}
	}
	resource := corev1.Resource(strings.Split(strings.TrimPrefix(c.key, keyPrefix), "/")[0])
	cost, err := meter.CostOf(resource, c.object)
	if err != nil {
		return err
	}
	u.costs[c.key] = cost
	if u.ending[c.key] && clocksDiffer {
		u.disputed[c.key], err = slowMeter.CostOf(resource, c.object)
	}
	return err
}
