// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// LimitedResource is a resource that may be used only if a quota limits its use.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/v1#LimitedResource e0cc1b65
type LimitedResource struct {
	// APIGroup is the group of the resource, "" for the core group.
	APIGroup string `json:"apiGroup,omitempty"`

	// Resource is the resource the rule applies to, such as persistentvolumeclaims.
	//
	//schema:required
	//schema:minLength 1
	Resource string `json:"resource"`

	// MatchContains lists parts of names. If an object uses something whose name contains one of
	// them, a quota must limit that name.
	MatchContains []string `json:"matchContains,omitempty"`

	// MatchScopes lists scopes. If an object is in one of them, a quota must have that scope. As
	// upstream, this holds for objects of any resource that can be in the scope.
	//
	//schema:items {"required": ["scopeName"], "if": {"required": ["operator"], "properties": {"operator": {"enum": ["In", "NotIn"]}}}, "then": {"required": ["values"], "properties": {"values": {"minItems": 1}}}, "else": {"properties": {"values": {"maxItems": 0}}}}
	//schema:items {"allOf": [{"if": {"properties": {"scopeName": {"enum": ["PriorityClass", "VolumeAttributesClass"]}}}, "then": {"required": ["operator"]}, "else": {"properties": {"operator": {"const": "Exists"}}}}]}
	MatchScopes []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

// Admit is like Apply, but refuses a change that the quotas or limited resources don't allow. Then
// the error holds all reasons in Kubernetes' words, joined by "; ":
//
//	failed quota: q: must specify cpu for: c1; memory for: c1,c2
//	status unknown for quota: q, resources: pods
//	insufficient quota to consume: requests.storage
//	insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]
//	exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2
//
// The caller wraps the error into a Forbidden that names the object.
//
// Limits refuse only increases. An update that uses less or leaves a quota's scope passes, however
// much is used, and so does a delete. If a container lacks what a quota requires, any change that
// moves the pod's usage is refused, as upstream refuses it with every resize. If usage that has to
// be compared is unknown, the change is refused: see IsUsageKnown.
//
// A status that the system reports must not be refused. Use Apply for the subresource status, as
// upstream does.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go#CheckRequest 93c3b734
func (c Change) Admit(quotas []*corev1.ResourceQuota, limited []LimitedResource) ([]*corev1.ResourceQuota, error) {
	if c.New == nil {
		return c.Apply(quotas), nil
	}
	if !c.MovesUsage() {
		return nil, nil
	}
	var (
		moved                                []*corev1.ResourceQuota
		failed, unknown, uncovered, exceeded []string
		v                                    objections
	)
	for _, q := range quotas {
		if c.New.scopedTo(q) != nil {
			if missing := c.New.omissionMessage(q.Spec.Hard); missing != "" {
				failed = append(failed, fmt.Sprintf("failed quota: %s: %s", q.Name, missing))
			}
		}
		v = objections{exceeded: v.exceeded[:0]}
		m := c.moveUsage(q, &v)
		if v.isUnknown {
			unknown = append(unknown, fmt.Sprintf("status unknown for quota: %s, resources: %s", q.Name, c.limitedNames(q)))
		}
		if len(v.exceeded) > 0 {
			exceeded = append(exceeded, exceededMessage(q.Name, v.exceeded))
		}
		if m != nil {
			moved = append(moved, m)
		}
	}
	if negative := c.New.negativeNames(); negative != "" {
		unknown = append(unknown, "quota usage is negative for resource(s): "+negative)
	}
	if len(limited) > 0 {
		uncovered = c.uncoveredMessages(quotas, limited)
	}
	if reasons := slices.Concat(failed, unknown, uncovered, exceeded); len(reasons) > 0 {
		return nil, errors.New(strings.Join(reasons, "; "))
	}
	return moved, nil
}

// exceededMessage returns the message about the limits of one quota that a change exceeds.
func exceededMessage(name string, over []excess) string {
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

// limitedNames returns the names in q that objects of the change's resource can use.
func (c Change) limitedNames(q *corev1.ResourceQuota) string {
	var names []string
	for name := range q.Spec.Hard {
		if CanUse(c.Resource, name) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// negativeNames returns the names that the object claims to use a negative amount of.
func (c *Cost) negativeNames() string {
	var names []string
	for i := range c.uses {
		if c.uses[i].amount.Sign() < 0 {
			names = append(names, string(c.uses[i].name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// uncoveredMessages returns the messages about limited resources and scopes that no quota covers.
func (c Change) uncoveredMessages(quotas []*corev1.ResourceQuota, limited []LimitedResource) []string {
	if !c.consumesMore(quotas) {
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

// consumesMore reports whether the change uses more than before, or begins to use a quota.
func (c Change) consumesMore(quotas []*corev1.ResourceQuota) bool {
	for i := range c.New.uses {
		u := &c.New.uses[i]
		if d := difference(&u.amount, c.Old.amount(u.name)); d.Sign() > 0 {
			return true
		}
	}
	return slices.ContainsFunc(quotas, func(q *corev1.ResourceQuota) bool {
		return c.New.scopedTo(q) != nil && c.Old.scopedTo(q) == nil && c.isLimitedBy(q)
	})
}

// isLimitedBy reports whether q limits anything that objects of the change's resource can use.
func (c Change) isLimitedBy(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if CanUse(c.Resource, name) {
			return true
		}
	}
	return false
}

// uncoveredNames returns the sorted names that the object uses, that are limited, and that no quota
// in whose scopes the object is limits.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go#limitedByDefault c488bc7c
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
			if u.amount.Sign() > 0 && slices.ContainsFunc(l.MatchContains, contains) && !c.New.isCovered(u.name, quotas) {
				names = append(names, string(u.name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isCovered reports whether a quota in whose scopes the object is limits the name.
func (c *Cost) isCovered(name corev1.ResourceName, quotas []*corev1.ResourceQuota) bool {
	return slices.ContainsFunc(quotas, func(q *corev1.ResourceQuota) bool {
		_, limited := q.Spec.Hard[name]
		return limited && c.scopedTo(q) != nil
	})
}

// uncoveredScopes returns the limited scopes that the object is in and no quota has, in the order
// of the configuration.
//
// As there, the quota must have the scope in a form that matches the object, but needn't limit
// anything in particular.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go#getMatchedLimitedScopes b1c0ba1c
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#UncoveredQuotaScopes 52a2d30d
func (c Change) uncoveredScopes(quotas []*corev1.ResourceQuota,
	limited []LimitedResource) []corev1.ScopedResourceSelectorRequirement {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for i := range limited {
		for _, s := range limited[i].MatchScopes {
			if c.New.isInScope(s.ScopeName, s.Operator, s.Values) && !c.New.isScopeCovered(s.ScopeName, quotas) {
				scopes = append(scopes, s)
			}
		}
	}
	return scopes
}

// isScopeCovered reports whether a quota has the scope in a form that matches the object.
func (c *Cost) isScopeCovered(scope corev1.ResourceQuotaScope, quotas []*corev1.ResourceQuota) bool {
	return slices.ContainsFunc(quotas, func(q *corev1.ResourceQuota) bool {
		if slices.Contains(q.Spec.Scopes, scope) && c.isInScope(scope, corev1.ScopeSelectorOpExists, nil) {
			return true
		}
		return q.Spec.ScopeSelector != nil && slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions,
			func(e corev1.ScopedResourceSelectorRequirement) bool {
				return e.ScopeName == scope && c.isInScope(scope, e.Operator, e.Values)
			})
	})
}
