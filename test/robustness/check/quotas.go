// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// change is a version of a key.
type change struct {
	key string
	version
}

// usage is what is stored in the namespace Quotas as of a revision.
type usage struct {
	objects map[string]runtime.Object
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
	now := &usage{objects: map[string]runtime.Object{}, quotas: map[string]*corev1.ResourceQuota{}}
	before := map[string]corev1.ResourceList{} // by quota
	for i, c := range changes {
		now.apply(c)
		if c.key == endedKey {
			r.count("revisions at which pods ended")
		}
		if i+1 < len(changes) && changes[i+1].revision == c.revision {
			continue // the revision isn't complete
		}
		if len(now.quotas) > 0 {
			r.count("revisions with quotas")
		}
		total := now.total()
		for name, q := range now.quotas {
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
func (u *usage) apply(c change) {
	if c.key == endedKey {
		u.ended = c.ended
		return
	}
	delete(u.objects, c.key)
	delete(u.quotas, c.key)
	switch object := c.object.(type) {
	case nil:
	case *corev1.ResourceQuota:
		u.quotas[c.key] = object
	default:
		u.objects[c.key] = object
	}
}

// total returns what all objects use. A pod that has ended counts only among all pods.
func (u *usage) total() corev1.ResourceList {
	total := corev1.ResourceList{}
	for key, object := range u.objects {
		resource := strings.Split(strings.TrimPrefix(key, keyPrefix), "/")[0]
		for name, amount := range costs[resource] {
			if pod, ok := object.(*corev1.Pod); ok && name != countPods && u.hasEnded(pod) {
				continue
			}
			amount.Add(total[name])
			total[name] = amount
		}
	}
	return total
}

// hasEnded reports whether a stored pod has ended. One that is deleted without a grace period has.
func (u *usage) hasEnded(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return grace != nil && *grace == 0 || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed || slices.Contains(u.ended, pod.UID)
}
