package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Change is one write to an object: Old is its cost before, nil for a create, and New its cost
// after, nil for a delete.
type Change struct {
	Resource schema.GroupResource
	Old, New *Cost
}

// Moves tells whether any quota's usage could be moved by the change, without looking at quotas: it
// does not where the object uses as much as before and is in the same scopes. What doesn't move is
// not refused either.
func (c Change) Moves() bool {
	if c.Old == c.New {
		return false
	}
	if c.Old == nil || c.New == nil {
		return c.Old.usesAny() || c.New.usesAny()
	}
	if len(c.Old.uses) != len(c.New.uses) || !sameScopes(c.Old, c.New) {
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

func (c *Cost) usesAny() bool { return c != nil && len(c.uses) != 0 }

// Apply returns, in their order, those of quotas whose usage the change moves: copies with
// status.used moved on and status.hard equal to spec.hard. An object that leaves the scopes of one
// quota for those of another moves from one to the other. Nothing is refused, and nothing becomes
// less than zero.
//
// A name that status.used doesn't have is unknown, and stays so: see Known. One that spec.hard
// doesn't have is dropped.
//
// The copies share metadata, spec and, where it was right, status.hard with quotas. Use them to
// write the status; to change more, make a deep copy.
func (c Change) Apply(quotas []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	if !c.Moves() {
		return nil
	}
	var moved []*corev1.ResourceQuota
	for _, q := range quotas {
		if m := c.move(q, nil); m != nil {
			moved = append(moved, m)
		}
	}
	return moved
}

// verdict is what a quota has against a change.
type verdict struct {
	over []excess
	// unknown says that usage rises of what it isn't known how much is used of.
	unknown bool
}

// excess is what a change asks for of a quota beyond its hard limit.
type excess struct {
	name                   corev1.ResourceName
	requested, used, limit resource.Quantity
}

// move returns q with its usage moved on by the change, nil if it doesn't move. What q has against
// it is added to v, unless that is nil.
func (c Change) move(q *corev1.ResourceQuota, v *verdict) *corev1.ResourceQuota {
	before, after := c.Old.in(q), c.New.in(q)
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
		was, known := q.Status.Used[name]
		if !known {
			if v != nil && sign > 0 {
				v.unknown = true
			}
			continue
		}
		is := was.DeepCopy()
		is.Add(delta)
		// Cmp turns its receiver into a slower kind of number where the other is one, as limits
		// like 100Ti are.
		if v != nil && sign > 0 && limit.Cmp(is) < 0 {
			v.over = append(v.over, excess{name: name, requested: delta, used: was, limit: limit})
		}
		if is.Sign() < 0 {
			is = resource.Quantity{Format: is.Format}
		}
		if was.Cmp(is) == 0 {
			// It was zero and could not become less.
			continue
		}
		if used == nil {
			used = knownUsage(q)
		}
		// remembers how it is written, which takes longer than all else about encoding it
		_ = is.String()
		used[name] = is
	}
	if used == nil {
		return nil
	}
	return withUsage(q, used)
}

// difference is plus-minus, where nil is zero. It may be changed by the caller.
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

// knownUsage is a copy of what q's status.used says of the names in spec.hard.
func knownUsage(q *corev1.ResourceQuota) corev1.ResourceList {
	used := make(corev1.ResourceList, len(q.Spec.Hard))
	for name, amount := range q.Status.Used {
		if _, limited := q.Spec.Hard[name]; limited {
			used[name] = amount
		}
	}
	return used
}

// withUsage is q with another status. What else it refers to is shared with q.
func withUsage(q *corev1.ResourceQuota, used corev1.ResourceList) *corev1.ResourceQuota {
	hard := q.Status.Hard
	if !equalLists(hard, q.Spec.Hard) {
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
