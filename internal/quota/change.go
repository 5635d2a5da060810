// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Change is one write to an object. Old is its cost before the write, nil for a create. New is its
// cost after the write, nil for a delete.
type Change struct {
	Resource schema.GroupResource
	Old, New *Cost
	// StatusLimits makes a limit that somebody has written into status.hard take precedence over that of
	// spec.hard, as in a kube-apiserver.
	StatusLimits bool
}

// MovesUsage reports whether the change could move the usage of any quota, without looking at
// quotas. If the object uses as much as before and is in the same scopes, it doesn't, and is never
// refused.
func (c Change) MovesUsage() bool {
	if c.Old == c.New {
		return false
	}
	if c.Old == nil || c.New == nil {
		return c.Old.usesAny() || c.New.usesAny()
	}
	if len(c.Old.uses) != len(c.New.uses) || !haveSameScopes(c.Old, c.New) {
		return true
	}
	for i := range c.Old.uses {
		o, n := &c.Old.uses[i], &c.New.uses[i]
		if o.name != n.name || o.amount.Cmp(n.amount) != 0 {
			return true
		}
	}
	return false
}

// NeedsUnknown reports whether the change uses more of something that a quota limits and whose usage
// is unknown.
func (c Change) NeedsUnknown(quotas []*corev1.ResourceQuota) bool {
	var v objections
	for _, q := range quotas {
		c.moveUsage(q, &v)
	}
	return v.isUnknown
}

// usesAny reports whether c uses anything. c may be nil.
func (c *Cost) usesAny() bool { return c != nil && len(c.uses) != 0 }

// Apply returns copies of the quotas whose usage the change moves, in the order of quotas, with
// status.used updated and, unless StatusLimits, status.hard equal to spec.hard. If an object leaves the scopes of one
// quota for those of another, its usage moves from one to the other. Nothing is refused, and no
// usage becomes negative.
//
// If status.used lacks a name, its usage is unknown and stays so: see IsUsageKnown. A name that
// spec.hard lacks is dropped.
//
// The copies share metadata, spec and, if it was right, status.hard with quotas. They are for
// writing the status. Before changing anything else, make a deep copy.
func (c Change) Apply(quotas []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	if !c.MovesUsage() {
		return nil
	}
	var moved []*corev1.ResourceQuota
	for _, q := range quotas {
		if m := c.moveUsage(q, nil); m != nil {
			moved = append(moved, m)
		}
	}
	return moved
}

// objections is what a quota has against a change.
type objections struct {
	exceeded []excess
	// isUnknown reports whether the change uses more of something whose usage is unknown.
	isUnknown bool
}

// excess is what a change requests of a quota beyond its hard limit.
type excess struct {
	name                   corev1.ResourceName
	requested, used, limit resource.Quantity
}

// moveUsage returns q with its usage updated, or nil if the usage doesn't change. It adds q's
// objections to v, which may be nil.
func (c Change) moveUsage(q *corev1.ResourceQuota, v *objections) *corev1.ResourceQuota {
	before, after := c.Old.scopedTo(q), c.New.scopedTo(q)
	if before == nil && after == nil {
		return nil
	}
	var used corev1.ResourceList
	for name, limit := range q.Spec.Hard {
		minus, plus := before.amount(name), after.amount(name)
		if minus == nil && plus == nil || minus != nil && plus != nil && minus.Cmp(*plus) == 0 {
			continue
		}
		delta := difference(plus, minus)
		sign := delta.Sign()
		if sign == 0 {
			continue
		}
		limit = c.limitOf(q, name, limit)
		was, known := q.Status.Used[name]
		if !known {
			if v != nil && sign > 0 {
				v.isUnknown = true
			}
			continue
		}
		now := was.DeepCopy()
		now.Add(delta)
		// Cmp converts its receiver to a slower kind of number if the argument is of that kind, as
		// limits like 100Ti are.
		if v != nil && sign > 0 && limit.Cmp(now) < 0 {
			v.exceeded = append(v.exceeded, excess{name: name, requested: delta, used: was, limit: limit})
		}
		if now.Sign() < 0 {
			now = resource.Quantity{Format: now.Format}
		}
		if was.Cmp(now) == 0 {
			// It was zero and can't become negative.
			continue
		}
		if used == nil {
			used = knownUsage(q)
		}
		// String caches the text, which is the expensive part of encoding a quantity.
		_ = now.String()
		used[name] = now
	}
	if used == nil {
		return nil
	}
	return c.withUsage(q, used)
}

// limitOf returns the limit of a name that spec.hard limits.
func (c Change) limitOf(q *corev1.ResourceQuota, name corev1.ResourceName, limit resource.Quantity) resource.Quantity {
	if written, ok := q.Status.Hard[name]; ok && c.StatusLimits {
		return written
	}
	return limit
}

// difference returns plus-minus; nil is zero. The caller may change the result.
func difference(plus, minus *resource.Quantity) resource.Quantity {
	if plus == nil {
		d := minus.DeepCopy()
		d.Neg()
		return d
	}
	d := plus.DeepCopy()
	if minus != nil {
		d.Sub(*minus)
	}
	return d
}

// knownUsage returns a copy of q's status.used, restricted to the names in spec.hard.
func knownUsage(q *corev1.ResourceQuota) corev1.ResourceList {
	used := make(corev1.ResourceList, len(q.Spec.Hard))
	for name, amount := range q.Status.Used {
		if _, limited := q.Spec.Hard[name]; limited {
			used[name] = amount
		}
	}
	return used
}

// withUsage returns a copy of q with another status. Everything else is shared with q.
func (c Change) withUsage(q *corev1.ResourceQuota, used corev1.ResourceList) *corev1.ResourceQuota {
	hard := q.Status.Hard
	if !c.StatusLimits && !equalLists(hard, q.Spec.Hard) {
		hard = q.Spec.Hard.DeepCopy()
	}
	moved := *q
	moved.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	return &moved
}

func equalLists(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		if y, ok := b[name]; !ok || x.Cmp(y) != 0 {
			return false
		}
	}
	return true
}
