// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Total returns the usage of every name in q.Spec.Hard: the sum over all costs in q's scopes, zero
// if nothing uses the name. It is what q's status.used should be.
//
// costs may include nil, and objects that no name of q counts; Resources returns the others.
//
// A pod's cost can end without a write (see Cost.ExpiresAt). So a total can be less than the sum of
// the changes: store it as it is. After that, the pod's deletion must not be given back a second
// time. So store with the total the time by which it was measured, and measure for changes by that
// time, whatever the clock says.
func Total(q *corev1.ResourceQuota, costs iter.Seq[*Cost]) corev1.ResourceList {
	sums := make([]use, 0, len(q.Spec.Hard))
	for name := range q.Spec.Hard {
		sums = append(sums, use{name: name, amount: resource.Quantity{Format: resource.DecimalSI}})
	}
	for c := range costs {
		c = c.scopedTo(q)
		if c == nil {
			continue
		}
		for i := range sums {
			if amount := c.amount(sums[i].name); amount != nil {
				sums[i].amount.Add(*amount)
			}
		}
	}
	total := make(corev1.ResourceList, len(sums))
	for i := range sums {
		total[sums[i].name] = sums[i].amount
	}
	return total
}

// IsUsageKnown reports whether q's status.used has every name in spec.hard. It doesn't if the quota
// is new or has a new name. Then compute its Total before admitting changes.
func IsUsageKnown(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if _, known := q.Status.Used[name]; !known {
			return false
		}
	}
	return true
}
