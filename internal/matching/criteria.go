// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Criteria holds the rules and selectors of a webhook, a policy or a binding, ready to be matched.
// It shares memory with the object it was made from, and never changes.
type Criteria struct {
	rules, exclusions []rule
	// matchesAll reports whether there are no rules, so that every request matches that isn't
	// excluded.
	matchesAll bool
	// matchesEquivalent reports whether the rules also match other versions of their resources.
	matchesEquivalent bool
	namespaceSelector selector
	objectSelector    selector
}

// rule is a rule of a webhook or policy.
type rule struct {
	*admissionregistrationv1.RuleWithOperations
	// names limits a policy's rule to the objects with these names. If empty, the rule is for all.
	names []string
}

// NewWebhookCriteria returns the Criteria of a webhook. Without a rule they match nothing.
func NewWebhookCriteria(rules []admissionregistrationv1.RuleWithOperations, policy *admissionregistrationv1.MatchPolicyType,
	namespaceSelector, objectSelector *metav1.LabelSelector) *Criteria {
	c := &Criteria{
		rules:             make([]rule, len(rules)),
		matchesEquivalent: isEquivalent(policy),
		namespaceSelector: newSelector(namespaceSelector),
		objectSelector:    newSelector(objectSelector),
	}
	for i := range rules {
		c.rules[i].RuleWithOperations = &rules[i]
	}
	return c
}

// NewResourceCriteria returns the Criteria of a policy's matchConstraints or a binding's
// matchResources. Without resourceRules they match every request that isn't excluded. If m is nil
// they match every request.
func NewResourceCriteria(m *admissionregistrationv1.MatchResources) *Criteria {
	if m == nil {
		everything := newSelector(&metav1.LabelSelector{})
		return &Criteria{matchesAll: true, namespaceSelector: everything, objectSelector: everything}
	}
	return &Criteria{
		rules:             newRules(m.ResourceRules),
		exclusions:        newRules(m.ExcludeResourceRules),
		matchesAll:        len(m.ResourceRules) == 0,
		matchesEquivalent: isEquivalent(m.MatchPolicy),
		namespaceSelector: newSelector(m.NamespaceSelector),
		objectSelector:    newSelector(m.ObjectSelector),
	}
}

func newRules(stated []admissionregistrationv1.NamedRuleWithOperations) []rule {
	if len(stated) == 0 {
		return nil
	}
	rules := make([]rule, len(stated))
	for i := range stated {
		rules[i] = rule{&stated[i].RuleWithOperations, stated[i].ResourceNames}
	}
	return rules
}

func isEquivalent(policy *admissionregistrationv1.MatchPolicyType) bool {
	return policy != nil && *policy == admissionregistrationv1.Equivalent
}

// A Match says how a webhook or policy wants to see a request.
type Match struct {
	// Resource is the request's own resource, or an equivalent one.
	Resource schema.GroupVersionResource
	// Kind is the kind that the object is to be converted to.
	Kind schema.GroupVersionKind
	// Converted reports whether Resource isn't the request's own.
	Converted bool
}

// A Candidate is a Criteria as it applies to requests with one target. It has a rule for the
// target, or nearly has one. It never changes.
type Candidate struct {
	criteria *Criteria
	// mismatch says why the Candidate matches no request. It is Matches if it can match.
	mismatch Mismatch
	// exclusions and options are the rules for the target, in the order in which they are tried.
	exclusions, options []option
}

// NeverMatches reports whether the Candidate matches no request: it only nearly has a rule for the
// target, or the target is exempt.
func (c *Candidate) NeverMatches() bool { return c.mismatch != Matches }

// option is a rule that matches the target. The request's kind isn't known here, since a resource
// may have several (pods/eviction receives an Eviction of either version).
type option struct {
	Match
	names []string
}

// isFinal reports whether no later option can be chosen.
func (o *option) isFinal() bool { return len(o.names) == 0 || o.hasUnknownKind() }

// hasUnknownKind reports whether the kind to convert the object to is unknown.
func (o *option) hasUnknownKind() bool { return o.Converted && o.Kind.Empty() }

// newCandidate returns the Criteria's Candidate for the target, nil if no rule matches the target.
func (c *Criteria) newCandidate(t Target, e *equivalents) *Candidate {
	candidate := &Candidate{criteria: c, exclusions: c.findOptions(c.exclusions, t, e)}
	failing := false
	if n := len(candidate.exclusions); n > 0 {
		if failing = candidate.exclusions[n-1].hasUnknownKind(); !failing && candidate.exclusions[n-1].isFinal() {
			return nil
		}
	}
	if c.matchesAll {
		candidate.options = []option{{Match: Match{Resource: t.Resource}}}
	} else {
		candidate.options = c.findOptions(c.rules, t, e)
	}
	if len(candidate.options) == 0 && !failing {
		return nil
	}
	return candidate
}

// findOptions returns the rules that match the target: first those for the request's own resource,
// then those for equivalent ones.
//
// A webhook has no names of resources.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/matching/matching.go#matchesResourceRules 867d9499
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go#ShouldCallHook e65ac040
func (c *Criteria) findOptions(rules []rule, t Target, e *equivalents) []option {
	var options []option
	for _, r := range rules {
		if ruleMatches(r.RuleWithOperations, t) {
			o := option{Match{Resource: t.Resource}, r.names}
			if options = append(options, o); o.isFinal() {
				return options
			}
		}
	}
	if !c.matchesEquivalent {
		return options
	}
	for _, r := range rules {
		for n, resource := range e.resources {
			if resource == t.Resource {
				continue
			}
			converted := t
			converted.Resource = resource
			if ruleMatches(r.RuleWithOperations, converted) {
				o := option{Match{Resource: resource, Kind: e.kinds[n], Converted: true}, r.names}
				if options = append(options, o); o.isFinal() {
					return options
				}
			}
		}
	}
	return options
}

// chooseOption returns the first option for an object with this name, nil if there is none.
func chooseOption(options []option, name string) (*option, error) {
	for i := range options {
		o := &options[i]
		if o.hasUnknownKind() {
			return nil, fmt.Errorf("unable to convert to %v: unknown kind", o.Resource)
		}
		if len(o.names) == 0 || slices.Contains(o.names, name) {
			return o, nil
		}
	}
	return nil, nil
}
