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

// Cost is what one object uses of everything a quota can limit, and what of the object scopes and
// limited resources depend on. It doesn't change any more and may be used concurrently.
type Cost struct {
	// uses has each name once, in an order that follows from the names alone.
	uses []use

	// kind says which scopes the object can be in.
	kind kind

	// Scopes of pods.
	terminating, bestEffort, crossNamespace bool
	priorityClass                           string
	// Scope of persistent volume claims: each class once, sorted.
	attributesClasses []string

	// unstated are a pod's containers that leave a request or limit out that some quota may
	// require.
	unstated []unstated

	// When a pod's grace period ends, or has ended before it was measured.
	expires, expired time.Time

	// kin is what ties a pod with extended resources and the claims made for them; see Kin. claim
	// is the claim that such a pod names.
	kin   types.UID
	claim string
	// less says that the object uses more than is here; see Certain.
	less bool
}

// use is an amount of what quotas know by a name.
type use struct {
	name   corev1.ResourceName
	amount resource.Quantity
}

// kind is what tells objects apart in matters other than numbers.
type kind uint8

const (
	// A counted object is in no scope.
	counted kind = iota
	aPod
	aVolumeClaim
)

// Usage is what the object uses, by the names quotas have for it. The list is a new one at each
// call.
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

// Expires is when the object ceases to use anything but its place in count/pods though nobody
// writes it: the end of the grace period of a pod that is being deleted. It is zero where that
// doesn't happen, or has happened.
func (c *Cost) Expires() time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.expires
}

// Expired is when the object ceased to use anything but its place in count/pods though nobody wrote
// it. It is zero where that hasn't happened. What a quota shows may still have it, or not; see
// Total.
func (c *Cost) Expired() time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.expired
}

// At is what c is at that time, as far as it changes without a write: see Expires.
func (c *Cost) At(now time.Time) *Cost {
	if c.Expires().IsZero() || !now.After(c.expires) {
		return c
	}
	late := *c
	late.uses = nil
	late.count(countPods, 1)
	late.expires, late.expired = time.Time{}, c.expires
	return &late
}

// amount is how much c uses of name, nil if that isn't among what it uses. c may be nil.
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

func (c *Cost) use(name corev1.ResourceName, amount resource.Quantity) {
	c.uses = append(c.uses, use{name: name, amount: amount})
}

func (c *Cost) count(name corev1.ResourceName, n int64) {
	c.use(name, *resource.NewQuantity(n, resource.DecimalSI))
}

// Meter measures objects with knowledge that isn't in the object. The zero Meter knows the time and
// nothing else.
type Meter struct {
	// Now is time.Now if nil. What is compared must be measured at one time; see Total.
	Now func() time.Time

	// Off are the feature gates that are off.
	Off Gates

	// Others are the objects that resource claims' costs depend on. If nil, there are none: no
	// device class is an extended resource by a name of its own, and every claim counts in full.
	Others Others
}

// Weighed tells whether what an object of this resource costs depends on what is in it, so that an
// update may change it. Objects of all other resources are merely counted.
func Weighed(resource schema.GroupResource) bool {
	switch resource {
	case pods, services, persistentVolumeClaims, resourceClaims:
		return true
	}
	return false
}

// NewObject is an empty object of the type that CostOf wants for a resource that is weighed, nil
// for all others.
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

// CostOf measures with the zero Meter.
func CostOf(resource schema.GroupResource, object runtime.Object) (*Cost, error) {
	return Meter{}.CostOf(resource, object)
}

// CostOf measures an object of a resource. Where that is weighed the object must be of the type of
// NewObject. Of all others only their existence counts: the object isn't looked at, and may be
// anything but nil.
//
// Subresources don't have a cost; a write to one is a change of the object's. What m.Others fails
// with is returned.
func (m Meter) CostOf(resource schema.GroupResource, object runtime.Object) (*Cost, error) {
	if object == nil {
		return nil, fmt.Errorf("%s: object to measure must not be nil", resource)
	}
	switch resource {
	case pods:
		return measure(resource, object, sure(m.pod))
	case services:
		return measure(resource, object, sure(ofService))
	case persistentVolumeClaims:
		return measure(resource, object, sure(m.volumeClaim))
	case resourceClaims:
		return measure(resource, object, m.claim)
	}
	return ofCounted(resource), nil
}

// sure is a way to measure that needs nothing but the object.
func sure[T any](cost func(*T) *Cost) func(*T) (*Cost, error) {
	return func(object *T) (*Cost, error) { return cost(object), nil }
}

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

// ofCounted is the cost of an object that costs its existence only.
func ofCounted(resource schema.GroupResource) *Cost {
	if ignored[resource] {
		return &Cost{}
	}
	alias, aliased := legacyCounts[resource]
	c := &Cost{uses: make([]use, 0, 2)}
	c.count(countName(resource), 1)
	if aliased {
		c.count(alias, 1)
	}
	return c
}
