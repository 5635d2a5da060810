// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Cost is how much one object uses of everything a quota can limit, with the properties that scopes
// and limited resources depend on. It doesn't change and is safe for concurrent use.
type Cost struct {
	// uses holds each name once, in an order that depends on the names only.
	uses []use

	// kind determines the scopes that the object can be in.
	kind kind

	// The scopes of a pod.
	terminating, bestEffort, crossNamespace bool
	priorityClass                           string
	// The scope of a persistent volume claim: each class once, sorted.
	attributesClasses []string

	// omissions are the containers of a pod that lack a request or limit that a quota may require.
	omissions []omission

	// expires is when a pod's grace period ends. expired reports whether it ended before the measurement.
	expires time.Time
	expired bool

	// kin connects a pod with extended resources and the claims made for it; see Kin. claim is the
	// claim that such a pod names.
	kin   types.UID
	claim string
	// isPartial reports whether the object uses more than uses holds; see CertainPart.
	isPartial bool
}

// use is an amount of one name.
type use struct {
	name   corev1.ResourceName
	amount resource.Quantity
}

// kind is the kind of an object, as far as scopes depend on it.
type kind uint8

const (
	// An otherKind object is in no scope.
	otherKind kind = iota
	podKind
	volumeClaimKind
)

// Usage returns how much the object uses, by the names that quotas have for it. The list is a new
// one for each call.
func (c *Cost) Usage() corev1.ResourceList {
	if c == nil {
		return corev1.ResourceList{}
	}
	usage := make(corev1.ResourceList, len(c.uses))
	for i := range c.uses {
		usage[c.uses[i].name] = c.uses[i].amount.DeepCopy()
	}
	return usage
}

// ExpiresAt returns when the object, without a write, stops using anything except its place in
// count/pods: at the end of the grace period of a pod that is being deleted. It is zero if that
// doesn't happen or has happened.
func (c *Cost) ExpiresAt() time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.expires
}

// DependsOnTime reports whether the object costs something else at another time than that of the
// measurement. The usage in a quota may or may not include such an object; see Total.
func (c *Cost) DependsOnTime() bool {
	return c != nil && (!c.expires.IsZero() || c.expired)
}

// CostAt returns the cost at a time, given that c changes without a write at ExpiresAt.
func (c *Cost) CostAt(now time.Time) *Cost {
	if c.ExpiresAt().IsZero() || !now.After(c.expires) {
		return c
	}
	expired := *c
	expired.uses = nil
	expired.addCount(countPods, 1)
	expired.expires, expired.expired = time.Time{}, true
	return &expired
}

// amount returns how much c uses of a name, nil if it uses none. c may be nil.
func (c *Cost) amount(name corev1.ResourceName) *resource.Quantity {
	if c == nil {
		return nil
	}
	for i := range c.uses {
		if c.uses[i].name == name {
			return &c.uses[i].amount
		}
	}
	return nil
}

func (c *Cost) addUse(name corev1.ResourceName, amount resource.Quantity) {
	c.uses = append(c.uses, use{name: name, amount: amount})
}

func (c *Cost) addCount(name corev1.ResourceName, n int64) {
	c.addUse(name, *resource.NewQuantity(n, resource.DecimalSI))
}

// Meter measures objects, with what isn't in the object. The zero Meter has the time only.
type Meter struct {
	// Now returns the time; nil is time.Now. Objects whose costs are compared must be measured at
	// one time; see Total.
	Now func() time.Time

	// Off holds the feature gates that are off.
	Off Gates

	// Related returns the objects that the costs of resource claims depend on. If nil, there are
	// none: no device class names an extended resource, and every claim counts in full.
	Related RelatedObjects
}

// DependsOnContent reports whether the cost of an object of this resource depends on its content,
// so that an update may change it. Objects of all other resources are merely counted.
func DependsOnContent(resource schema.GroupResource) bool {
	switch resource {
	case pods, services, persistentVolumeClaims, resourceClaims:
		return true
	}
	return false
}

// NewObject returns an empty object of the type that CostOf requires if the cost depends on the
// content, else nil.
func NewObject(resource schema.GroupResource) runtime.Object {
	switch resource {
	case pods:
		return &corev1.Pod{}
	case services:
		return &corev1.Service{}
	case persistentVolumeClaims:
		return &corev1.PersistentVolumeClaim{}
	case resourceClaims:
		return &resourcev1.ResourceClaim{}
	}
	return nil
}

// CostOf returns the cost of an object by the zero Meter.
func CostOf(resource schema.GroupResource, object runtime.Object) (*Cost, error) {
	return Meter{}.CostOf(resource, object)
}

// CostOf returns the cost of an object of a resource. If the cost depends on the content, the
// object must be of the type of NewObject. Otherwise only its existence counts, and it may be
// anything but nil.
//
// Subresources have no cost; a write to one is a change of the object. An error of m.Related is
// returned.
func (m Meter) CostOf(resource schema.GroupResource, object runtime.Object) (*Cost, error) {
	if object == nil {
		return nil, fmt.Errorf("%s: object to measure must not be nil", resource)
	}
	switch resource {
	case pods:
		return measure(resource, object, withoutError(m.podCost))
	case services:
		return measure(resource, object, withoutError(serviceCost))
	case persistentVolumeClaims:
		return measure(resource, object, withoutError(m.volumeClaimCost))
	case resourceClaims:
		return measure(resource, object, m.claimCost)
	}
	return countedCost(resource), nil
}

// withoutError adapts a function that doesn't fail.
func withoutError[T any](cost func(*T) *Cost) func(*T) (*Cost, error) {
	return func(object *T) (*Cost, error) { return cost(object), nil }
}

// measure calls cost if the object is of type T.
func measure[T any](resource schema.GroupResource, object runtime.Object, cost func(*T) (*Cost, error)) (*Cost,
	error) {
	typed, ok := any(object).(*T)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: object to measure must be a %T, is a %T", resource, typed, object)
	case typed == nil:
		return nil, fmt.Errorf("%s: object to measure must not be nil", resource)
	}
	return cost(typed)
}

// countedCost returns the cost of an object that is merely counted.
func countedCost(resource schema.GroupResource) *Cost {
	if ignoredResources[resource] {
		return &Cost{}
	}
	alias, aliased := legacyCounts[resource]
	c := &Cost{uses: make([]use, 0, 2)}
	c.addCount(countName(resource), 1)
	if aliased {
		c.addCount(alias, 1)
	}
	return c
}
