package quota

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Total is what objects use in sum of every name in q.Spec.Hard, as far as they are in q's scopes:
// zero of what nothing uses. It is what q's status.used should be.
//
// Costs of objects that no name of q counts do no harm; Resources says which those are. Nil costs
// are passed over.
//
// Mind the clock where totals and changes meet. A pod's cost can end without a write (see
// Cost.Expires), and so a total can be less than what changes have added up to: put it in place as
// it is. After that the pod's deletion must not be charged back a second time, so whoever measures
// old objects for a change must not be behind whoever measured for the total: measure for changes
// with a Meter.Now a little ahead if clocks may differ. The error that is left is usage that ends
// up too high, until the next total.
func Total(q *corev1.ResourceQuota, costs iter.Seq[*Cost]) corev1.ResourceList {
	sums := make([]use, 0, len(q.Spec.Hard))
	for name := range q.Spec.Hard {
		sums = append(sums, use{name: name, amount: resource.Quantity{Format: resource.DecimalSI}})
	}
	for c := range costs {
		c = c.in(q)
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

// Known tells whether q's status.used says something of every name in spec.hard. It doesn't for a
// quota that is new or has got a new name: then its Total must be computed before changes are
// admitted.
func Known(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if _, known := q.Status.Used[name]; !known {
			return false
		}
	}
	return true
}
