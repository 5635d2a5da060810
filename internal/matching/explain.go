// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// maxNamed bounds the names in an explanation.
const maxNamed = 5

// ExplainRules returns why none of the rules matches requests with the target. It returns Matches if a
// rule matches. It knows no equivalent resources.
func ExplainRules(rules []admissionregistrationv1.RuleWithOperations, t Target) Mismatch {
	if slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool { return ruleMatches(&r, t) }) {
		return Matches
	}
	if len(rules) == 0 {
		return "it has no rules"
	}
	asked := t.Resource.Resource
	if t.Subresource != "" {
		asked += "/" + t.Subresource
	}
	// Each step forgives one more thing, so that the first one that matches names what is missing.
	for _, step := range []struct {
		forgive func(*admissionregistrationv1.RuleWithOperations, *Target)
		explain func(near []admissionregistrationv1.RuleWithOperations) string
	}{
		{func(r *admissionregistrationv1.RuleWithOperations, _ *Target) {
			r.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}
		}, func(near []admissionregistrationv1.RuleWithOperations) string {
			return fmt.Sprintf("its rules have %s of %s, and not %s", namesOf(near, operationsOf), asked, t.Operation)
		}},
		{func(r *admissionregistrationv1.RuleWithOperations, _ *Target) { r.APIVersions = []string{"*"} },
			func(near []admissionregistrationv1.RuleWithOperations) string {
				return fmt.Sprintf("its rules are for version %s of %s, and not for %s", namesOf(near, versionsOf), asked,
					t.Resource.Version)
			}},
		{func(r *admissionregistrationv1.RuleWithOperations, _ *Target) { r.Scope = nil },
			func(near []admissionregistrationv1.RuleWithOperations) string {
				return fmt.Sprintf("the scope of its rules is %s, which leaves out %s", *near[0].Scope, asked)
			}},
		{func(r *admissionregistrationv1.RuleWithOperations, t *Target) { t.Subresource = "" },
			func([]admissionregistrationv1.RuleWithOperations) string {
				return fmt.Sprintf("its rules are for %s, and not for %s", t.Resource.Resource, asked)
			}},
	} {
		var near []admissionregistrationv1.RuleWithOperations
		for i := range rules {
			forgiven, target := rules[i], t
			step.forgive(&forgiven, &target)
			if ruleMatches(&forgiven, target) {
				near = append(near, rules[i])
			}
		}
		if len(near) > 0 {
			return Mismatch(step.explain(near))
		}
	}
	if t.Resource.Group != "" {
		asked += " of " + t.Resource.Group
	}
	return Mismatch(fmt.Sprintf("its rules are for %s, and not for %s of %s", namesOf(rules, resourcesOf), t.Operation, asked))
}

// namesOf returns what rules name, each once, as text.
func namesOf(rules []admissionregistrationv1.RuleWithOperations,
	of func(*admissionregistrationv1.RuleWithOperations) []string) string {
	var names []string
	for i := range rules {
		for _, name := range of(&rules[i]) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

func operationsOf(r *admissionregistrationv1.RuleWithOperations) (names []string) {
	for _, o := range r.Operations {
		names = append(names, string(o))
	}
	return names
}

func versionsOf(r *admissionregistrationv1.RuleWithOperations) []string { return r.APIVersions }

// resourcesOf returns the resources of a rule, each with its group unless that is the core group.
func resourcesOf(r *admissionregistrationv1.RuleWithOperations) (names []string) {
	operations := strings.Join(operationsOf(r), "/")
	if operations == "*" {
		operations = "any operation"
	}
	for _, resource := range r.Resources {
		name := operations + " of " + resource
		switch groups := strings.Join(r.APIGroups, "|"); groups {
		case "":
		case "*":
			name += " of any group"
		default:
			name += " of " + groups
		}
		names = append(names, name)
	}
	return names
}
