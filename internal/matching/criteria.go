package matching

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Criteria say which requests a webhook, a policy or a binding is for. They share memory with the
// object they were made of, and never change.
type Criteria struct {
	rules, exclusions []rule
	// all says that every request that isn't excluded is meant: there are no rules.
	all bool
	// equivalent says that requests for other versions of the rules' resources are meant, too.
	equivalent        bool
	namespaceSelector selector
	objectSelector    selector
}

// rule is a rule of a webhook or, where it may have names, of a policy.
type rule struct {
	*admissionregistrationv1.RuleWithOperations
	// names are the only objects that the rule is for; all, where there are none.
	names []string
}

// ForWebhook makes Criteria of what a webhook has of them. Without a rule it is for nothing.
func ForWebhook(rules []admissionregistrationv1.RuleWithOperations, policy *admissionregistrationv1.MatchPolicyType,
	namespaceSelector, objectSelector *metav1.LabelSelector) *Criteria {
	c := &Criteria{
		rules:             make([]rule, len(rules)),
		equivalent:        isEquivalent(policy),
		namespaceSelector: newSelector(namespaceSelector),
		objectSelector:    newSelector(objectSelector),
	}
	for i := range rules {
		c.rules[i].RuleWithOperations = &rules[i]
	}
	return c
}

// ForResources makes Criteria of a policy's matchConstraints or a binding's matchResources. Without
// a rule in resourceRules they are for everything that isn't excluded, and nil is for everything.
func ForResources(m *admissionregistrationv1.MatchResources) *Criteria {
	if m == nil {
		everything := newSelector(&metav1.LabelSelector{})
		return &Criteria{all: true, namespaceSelector: everything, objectSelector: everything}
	}
	return &Criteria{
		rules:             namedRules(m.ResourceRules),
		exclusions:        namedRules(m.ExcludeResourceRules),
		all:               len(m.ResourceRules) == 0,
		equivalent:        isEquivalent(m.MatchPolicy),
		namespaceSelector: newSelector(m.NamespaceSelector),
		objectSelector:    newSelector(m.ObjectSelector),
	}
}

func namedRules(stated []admissionregistrationv1.NamedRuleWithOperations) []rule {
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

// A Match is what a webhook or policy wants a request to be about.
type Match struct {
	// Resource is the request's own resource, or one equivalent to that.
	Resource schema.GroupVersionResource
	// Kind is the kind that the object is to be shown as.
	Kind schema.GroupVersionKind
	// Converted says that Resource isn't the request's own.
	Converted bool
}

// A Candidate is Criteria that have a rule for requests with one target, or nearly have one. It
// never changes.
type Candidate struct {
	criteria *Criteria
	// missed is why it matches none of the requests, if so.
	missed Mismatch
	// exclusions and options are the rules for the target, in the order in which they are tried.
	exclusions, options []option
}

// Missed reports whether the Candidate matches none of the requests.
func (c *Candidate) Missed() bool { return c.missed != Matches }

// option is one way for a request to match. The request's own kind is not known, since there may be
// several for its resource (an Eviction of either version is sent to pods/eviction).
type option struct {
	Match
	names []string
}

// last says that no option after this one is ever tried.
func (o *option) last() bool { return len(o.names) == 0 || o.unknown() }

// unknown says that nobody knows what the object would have to be converted to.
func (o *option) unknown() bool { return o.Converted && o.Kind.Empty() }

// candidate returns the Criteria as they are for requests with the target, nil where they have no
// rule for these.
func (c *Criteria) candidate(t Target, e *equivalents) *Candidate {
	candidate := &Candidate{criteria: c, exclusions: c.optionsOf(c.exclusions, t, e)}
	failing := false
	if n := len(candidate.exclusions); n > 0 {
		if failing = candidate.exclusions[n-1].unknown(); !failing && candidate.exclusions[n-1].last() {
			return nil
		}
	}
	if c.all {
		candidate.options = []option{{Match: Match{Resource: t.Resource}}}
	} else {
		candidate.options = c.optionsOf(c.rules, t, e)
	}
	if len(candidate.options) == 0 && !failing {
		return nil
	}
	return candidate
}

// optionsOf are the rules for the target: first those for the request as it came, then those for it
// as one for an equivalent resource.
//
// Source: matchesResourceRules in k8s.io/apiserver/pkg/admission/plugin/policy/matching, and
// ShouldCallHook in k8s.io/apiserver/pkg/admission/plugin/webhook/generic, which does the same
// without names.
func (c *Criteria) optionsOf(rules []rule, t Target, e *equivalents) []option {
	var options []option
	for _, r := range rules {
		if matches(r.RuleWithOperations, t) {
			o := option{Match{Resource: t.Resource}, r.names}
			if options = append(options, o); o.last() {
				return options
			}
		}
	}
	if !c.equivalent {
		return options
	}
	for _, r := range rules {
		for n, resource := range e.resources {
			if resource == t.Resource {
				continue
			}
			converted := t
			converted.Resource = resource
			if matches(r.RuleWithOperations, converted) {
				o := option{Match{Resource: resource, Kind: e.kinds[n], Converted: true}, r.names}
				if options = append(options, o); o.last() {
					return options
				}
			}
		}
	}
	return options
}

// choose returns the first option for an object of this name.
func choose(options []option, name string) (*option, error) {
	for i := range options {
		o := &options[i]
		if o.unknown() {
			return nil, fmt.Errorf("unable to convert to %v: unknown kind", o.Resource)
		}
		if len(o.names) == 0 || slices.Contains(o.names, name) {
			return o, nil
		}
	}
	return nil, nil
}
