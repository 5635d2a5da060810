// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/matching"
)

// configurations are the resources about which no webhook of the API is asked.
var configurations = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
	"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
	"mutatingadmissionpolicybindings"}

// exemptResources looks for resources about which API servers ask no webhook or evaluate no policy.
func (l *linting) exemptResources() {
	for _, w := range l.Webhooks {
		l.exempt(at(w, "rules"), "no webhook is asked about", w.Rules, func(t matching.Target) bool {
			return t.IsReview() || t.Resource.Group == admissionregistrationv1.GroupName &&
				slices.Contains(configurations, t.Resource.Resource)
		})
	}
	for _, p := range l.Policies {
		if p.Constraints == nil {
			continue
		}
		var rules []admissionregistrationv1.RuleWithOperations
		for _, r := range p.Constraints.ResourceRules {
			rules = append(rules, r.RuleWithOperations)
		}
		l.exempt(place{p.Document, "/spec/matchConstraints/resourceRules", ""}, "no policy is evaluated for", rules,
			func(t matching.Target) bool { return t.IsReview() || t.IsPolicy() })
	}
}

func (l *linting) exempt(p place, nobody string, rules []admissionregistrationv1.RuleWithOperations,
	isExempt func(matching.Target) bool) {
	var exempt []string
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				t := matching.Target{Resource: schema.GroupVersionResource{Group: group, Resource: resource}}
				if name := t.Resource.GroupResource().String(); isExempt(t) && !slices.Contains(exempt, name) {
					exempt = append(exempt, name)
				}
			}
		}
	}
	if len(exempt) > 0 {
		l.add(p, Warning, change{}, nobody+" "+sentence(exempt)+", so that none can lock everybody out: the rule has no "+
			"effect for them", "leave them out of the rules")
	}
}
