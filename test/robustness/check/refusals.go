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

	"gatehouse.dev/internal/quota"
)

// CountedObject returns an object of a resource that clients create in the namespace Quotas. A pod is bound
// to a node, so it can be given time to end.
func CountedObject(resourceName, name string) runtime.Object {
	metadata := metav1.ObjectMeta{Name: name}
	if resourceName == "configmaps" {
		return &corev1.ConfigMap{ObjectMeta: metadata}
	}
	container := corev1.Container{Name: "one", Image: "one"}
	container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
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
		cost, err := quota.CostOf(corev1.Resource(o.Resource), CountedObject(o.Resource, o.Name))
		if err != nil {
			r.fail("refusals", "%s: %v", o.ID, err)
			continue
		}
		// An event that is recorded before the request was stored before it.
		from, _ := slices.BinarySearchFunc(h.Revisions, o.Start, func(v Revision, at int64) int {
			return cmp.Compare(v.Seen, at)
		})
		first, last := int64(0), h.storedAfter(i)
		if from > 0 {
			first = h.Revisions[from-1].Revision
		}
		change := quota.Change{Resource: corev1.Resource(o.Resource), New: cost}
		if !s.wasFull(change, first, last) {
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

// wasFull reports whether a quota would have refused a change at a revision between two.
func (s *store) wasFull(change quota.Change, first, last int64) bool {
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
			if _, refusal := change.Admit([]*corev1.ResourceQuota{q}, nil); refusal != nil {
				return true
			}
		}
	}
	return false
}
