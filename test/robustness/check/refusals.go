// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// costs is how much of a quota an object of CountedObject uses, by its resource. It doesn't ask the package
// quota, whose sums are checked.
var costs = map[string]corev1.ResourceList{
	"configmaps": {corev1.ResourceConfigMaps: resource.MustParse("1")},
	"pods": {corev1.ResourcePods: resource.MustParse("1"), corev1.ResourceRequestsCPU: resource.MustParse("100m"),
		countPods: resource.MustParse("1")},
}

// countPods is the limit of all pods, also of those that have ended.
const countPods corev1.ResourceName = "count/pods"

// CountedObject returns an object of a resource that clients create in the namespace Quotas. A pod is bound
// to a node, so it can be given time to end.
func CountedObject(resourceName, name string) runtime.Object {
	metadata := metav1.ObjectMeta{Name: name}
	if resourceName == "configmaps" {
		return &corev1.ConfigMap{ObjectMeta: metadata}
	}
	container := corev1.Container{Name: "one", Image: "one"}
	container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: costs["pods"][corev1.ResourceRequestsCPU]}
	return &corev1.Pod{ObjectMeta: metadata, Spec: corev1.PodSpec{AutomountServiceAccountToken: new(false), NodeName: "none",
		Containers: []corev1.Container{container}}}
}

// lookahead is how many later writes bound the revision at which a request was refused.
const lookahead = 50

// checkRefusals checks that a request which a quota refused would have exceeded a quota at some moment
// while the request was decided.
func (h *History) checkRefusals(s *store, r *Report) {
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Namespace != Quotas || o.Verb != "create" || o.Code != http.StatusForbidden ||
			!strings.Contains(o.Message, "exceeded quota") {
			continue
		}
		r.count("refusals by quota")
		// An event that is recorded before the request was stored before it.
		from, _ := slices.BinarySearchFunc(h.Revisions, o.Start, func(v Revision, at int64) int {
			return cmp.Compare(v.Seen, at)
		})
		first, last := int64(0), h.storedAfter(i)
		if from > 0 {
			first = h.Revisions[from-1].Revision
		}
		if !s.wasFull(costs[o.Resource], first, last) {
			r.fail("refusals", "%s create %s was refused between revisions %d and %d with room all the time: %s", o.ID,
				o.Resource, first, last, o.Message)
		}
	}
}

// storedAfter returns a revision that was stored after an operation had ended, a low one.
func (h *History) storedAfter(i int) int64 {
	revision, end, seen := int64(math.MaxInt64), h.Operations[i].End, 0
	for _, later := range h.Operations[i:] {
		if later.Start > end && later.Value != "" && later.Object != nil {
			revision = min(revision, later.Object.Revision)
			if seen++; seen == lookahead {
				break
			}
		}
	}
	return revision
}

// wasFull reports whether a quota had no room for a cost at a revision between two.
func (s *store) wasFull(cost corev1.ResourceList, first, last int64) bool {
	for key, versions := range s.versions {
		if !strings.HasPrefix(key, keyPrefix+"resourcequotas/"+Quotas+"/") {
			continue
		}
		for i, v := range versions {
			isOver := i+1 < len(versions) && versions[i+1].revision <= first
			q, ok := v.object.(*corev1.ResourceQuota)
			if !ok || isOver || v.revision > last {
				continue
			}
			for name, amount := range cost {
				limit, isLimited := q.Spec.Hard[name]
				amount.Add(q.Status.Used[name])
				if isLimited && amount.Cmp(limit) > 0 {
					return true
				}
			}
		}
	}
	return false
}
