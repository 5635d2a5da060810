// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Explain says in words what the change means for a quota as it was when the change was decided,
// and reports whether the quota refuses it. For each name that the change moves, it gives the
// usage, the limit, and what the change requests or gives back.
//
//	pods: 3 of 5 used, 1 requested
//	requests.cpu: 900m of 1 used, 200m requested, which is too much
//
// It returns "" if the change doesn't concern the quota.
func (c Change) Explain(q *corev1.ResourceQuota) (words string, refused bool) {
	if c.New != nil && !c.MovesUsage() {
		return "", false
	}
	before, after := c.Old.scopedTo(q), c.New.scopedTo(q)
	var parts []string
	for name, limit := range q.Spec.Hard {
		minus, plus := before.amount(name), after.amount(name)
		if minus == nil && plus == nil {
			continue
		}
		delta := difference(plus, minus)
		sign := delta.Sign()
		if sign == 0 {
			continue
		}
		limit = c.limitOf(q, name, limit)
		moves := delta.String() + " requested"
		if sign < 0 {
			delta.Neg()
			moves = delta.String() + " given back"
		}
		used, known := q.Status.Used[name]
		if !known {
			refused = refused || sign > 0
			parts = append(parts, fmt.Sprintf("%s: not known yet how much of %s is used, %s", name, limit.String(),
				moves))
			continue
		}
		part := fmt.Sprintf("%s: %s of %s used, %s", name, used.String(), limit.String(), moves)
		now := used.DeepCopy()
		now.Add(delta)
		if sign > 0 && limit.Cmp(now) < 0 {
			refused = true
			part += ", which is too much"
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	if c.New.scopedTo(q) != nil {
		if missing := c.New.omissionMessage(q.Spec.Hard); missing != "" {
			refused = true
			parts = append(parts, missing)
		}
	}
	return strings.Join(parts, "; "), refused
}
