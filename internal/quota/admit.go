package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// LimitedResource is a resource that may be consumed only where a quota limits its consumption.
//
// Source: LimitedResource in
// k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/v1.
type LimitedResource struct {
	// APIGroup is the group of the resource, "" for the core group.
	APIGroup string `json:"apiGroup,omitempty"`

	// Resource is the resource the rule applies to, such as persistentvolumeclaims.
	Resource string `json:"resource"`

	// MatchContains are parts of the names of what is limited: where an object uses something whose
	// name contains one of them, some quota must limit that name.
	MatchContains []string `json:"matchContains,omitempty"`

	// MatchScopes are scopes that are limited: where an object is in one of them, some quota must
	// have the scope. As upstream, this holds for objects of any resource that can be in the scope.
	MatchScopes []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

// Admit is Apply with enforcement: where the change may not be, it returns no quotas and the
// reasons in Kubernetes' words, all of them, joined by "; ":
//
//	failed quota: q: must specify cpu for: c1; memory for: c1,c2
//	status unknown for quota: q, resources: pods
//	insufficient quota to consume: requests.storage
//	insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]
//	exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2
//
// The error is a plain one; to wrap it into a Forbidden that names the object is the caller's.
// Limits refuse only what increases: an update that uses less, or leaves a quota's scope, passes
// however much is used, and so does a delete. A container that leaves out what a quota demands is
// refused with any change that moves the pod's usage, as upstream refuses it with every resize.
// Where usage that is to be compared is unknown nothing passes: see Known.
//
// What the system reports by writing a status must not be refused. Use Apply for the subresource
// status, as upstream does.
//
// Source: CheckRequest in k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go.
func (c Change) Admit(quotas []*corev1.ResourceQuota, limited []LimitedResource) ([]*corev1.ResourceQuota, error) {
	if c.New == nil {
		return c.Apply(quotas), nil
	}
	if !c.Moves() {
		return nil, nil
	}
	var (
		moved                                []*corev1.ResourceQuota
		failed, unknown, uncovered, exceeded []string
		v                                    verdict
	)
	for _, q := range quotas {
		if c.New.in(q) != nil {
			if missing := c.New.missing(q.Spec.Hard); missing != "" {
				failed = append(failed, fmt.Sprintf("failed quota: %s: %s", q.Name, missing))
			}
		}
		v = verdict{over: v.over[:0]}
		m := c.move(q, &v)
		if v.unknown {
			unknown = append(unknown, fmt.Sprintf("status unknown for quota: %s, resources: %s", q.Name, c.counted(q)))
		}
		if len(v.over) > 0 {
			exceeded = append(exceeded, tooMuch(q.Name, v.over))
		}
		if m != nil {
			moved = append(moved, m)
		}
	}
	if negative := c.New.negative(); negative != "" {
		unknown = append(unknown, "quota usage is negative for resource(s): "+negative)
	}
	if len(limited) > 0 {
		uncovered = c.uncovered(quotas, limited)
	}
	if reasons := slices.Concat(failed, unknown, uncovered, exceeded); len(reasons) > 0 {
		return nil, errors.New(strings.Join(reasons, "; "))
	}
	return moved, nil
}

// tooMuch is the message about one quota's limits that a change exceeds.
func tooMuch(name string, over []excess) string {
	slices.SortFunc(over, func(a, b excess) int { return strings.Compare(string(a.name), string(b.name)) })
	list := func(amount func(*excess) *resource.Quantity) string {
		parts := make([]string, len(over))
		for i := range over {
			parts[i] = string(over[i].name) + "=" + amount(&over[i]).String()
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", name,
		list(func(e *excess) *resource.Quantity { return &e.requested }),
		list(func(e *excess) *resource.Quantity { return &e.used }),
		list(func(e *excess) *resource.Quantity { return &e.limit }))
}

// counted lists what q limits of the resource.
func (c Change) counted(q *corev1.ResourceQuota) string {
	var names []string
	for name := range q.Spec.Hard {
		if counts(c.Resource, name) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// negative lists what an object claims to use less than nothing of.
func (c *Cost) negative() string {
	var names []string
	for i := range c.uses {
		if c.uses[i].amount.Sign() < 0 {
			names = append(names, string(c.uses[i].name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// uncovered are the messages about limited resources and scopes that no quota covers.
func (c Change) uncovered(quotas []*corev1.ResourceQuota, limited []LimitedResource) []string {
	if !c.consumes(quotas) {
		return nil
	}
	var messages []string
	if names := c.uncoveredNames(quotas, limited); len(names) > 0 {
		messages = append(messages, "insufficient quota to consume: "+strings.Join(names, ","))
	}
	if scopes := c.uncoveredScopes(quotas, limited); len(scopes) > 0 {
		messages = append(messages, fmt.Sprintf("insufficient quota to match these scopes: %v", scopes))
	}
	return messages
}

// consumes tells whether the change uses more than before in all, or begins to use a quota.
func (c Change) consumes(quotas []*corev1.ResourceQuota) bool {
	for i := range c.New.uses {
		u := &c.New.uses[i]
		if d := difference(&u.amount, c.Old.amount(u.name)); d.Sign() > 0 {
			return true
		}
	}
	return slices.ContainsFunc(quotas, func(q *corev1.ResourceQuota) bool {
		return c.New.in(q) != nil && c.Old.in(q) == nil && c.limitedBy(q)
	})
}

// limitedBy tells whether q limits anything that the resource's objects use.
func (c Change) limitedBy(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if counts(c.Resource, name) {
			return true
		}
	}
	return false
}

// uncoveredNames are what the object uses, is limited, and is in no quota for the object: sorted.
//
// Source: limitedByDefault in k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go.
func (c Change) uncoveredNames(quotas []*corev1.ResourceQuota, limited []LimitedResource) []string {
	var names []string
	for i := range limited {
		l := &limited[i]
		if l.APIGroup != c.Resource.Group || l.Resource != c.Resource.Resource {
			continue
		}
		for j := range c.New.uses {
			u := &c.New.uses[j]
			contains := func(part string) bool { return strings.Contains(string(u.name), part) }
			if u.amount.Sign() > 0 && slices.ContainsFunc(l.MatchContains, contains) && !c.New.covered(u.name, quotas) {
				names = append(names, string(u.name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c *Cost) covered(name corev1.ResourceName, quotas []*corev1.ResourceQuota) bool {
	return slices.ContainsFunc(quotas, func(q *corev1.ResourceQuota) bool {
		_, limited := q.Spec.Hard[name]
		return limited && c.in(q) != nil
	})
}

// uncoveredScopes are the limited scopes that the object is in and that are a scope of no quota, in
// the order in which they are configured.
//
// Source: getMatchedLimitedScopes in
// k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go and UncoveredQuotaScopes in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go. There as here the quota needs to have the
// scope in a form that the object matches, but needs to limit nothing in particular.
func (c Change) uncoveredScopes(quotas []*corev1.ResourceQuota,
	limited []LimitedResource) []corev1.ScopedResourceSelectorRequirement {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for i := range limited {
		for _, s := range limited[i].MatchScopes {
			if c.New.matches(s.ScopeName, s.Operator, s.Values) && !c.New.scopeCovered(s.ScopeName, quotas) {
				scopes = append(scopes, s)
			}
		}
	}
	return scopes
}

func (c *Cost) scopeCovered(scope corev1.ResourceQuotaScope, quotas []*corev1.ResourceQuota) bool {
	return slices.ContainsFunc(quotas, func(q *corev1.ResourceQuota) bool {
		if slices.Contains(q.Spec.Scopes, scope) && c.matches(scope, corev1.ScopeSelectorOpExists, nil) {
			return true
		}
		return q.Spec.ScopeSelector != nil && slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions,
			func(e corev1.ScopedResourceSelectorRequirement) bool {
				return e.ScopeName == scope && c.matches(scope, e.Operator, e.Values)
			})
	})
}
