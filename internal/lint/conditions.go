// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/expression"
)

var conditionRules = []Rule{
	{"condition-invalid", Error, "a match condition doesn't compile", (*linting).conditionInvalid},
	{"condition-never", Warning, "a match condition is never true", (*linting).conditionNever},
	{"condition-always", Warning, "a match condition is always true", (*linting).conditionAlways},
	{"condition-selector", Warning, "a namespace selector says the same as a match condition", (*linting).conditionSelector},
}

// A conditioned is an object with match conditions: a webhook or a policy.
type conditioned struct {
	place
	fails      bool
	isWebhook  bool
	requests   []request
	variables  []admissionregistrationv1.Variable
	conditions []admissionregistrationv1.MatchCondition
}

// at returns the place of a match condition.
func (c *conditioned) at(i int) place {
	p := c.place
	p.path = fmt.Sprintf("%s/%d/expression", c.path, i)
	return p
}

// conditioned returns all webhooks and policies that have match conditions.
func (l *linting) conditioned() (all []conditioned) {
	for _, w := range l.Webhooks {
		if len(w.MatchConditions) > 0 {
			c := &constraint{rules: w.Rules, matchPolicy: *w.MatchPolicy, mutating: w.Mutating}
			all = append(all, conditioned{place: at(w, "matchConditions"), fails: w.Fails(), isWebhook: true,
				requests: l.requests(c, nil), conditions: w.MatchConditions})
		}
	}
	for _, p := range l.Policies {
		if len(p.MatchConditions) > 0 {
			all = append(all, conditioned{place: place{p.Document, "/spec/matchConditions", ""}, fails: p.Fails,
				requests: l.requests(constraintOf(p), nil), variables: p.Variables, conditions: p.MatchConditions})
		}
	}
	return all
}

// outcomes returns those of a match condition.
func (c *conditioned) outcomes(i int) outcomes {
	return outcomesOf(c.requests, true, c.variables, c.conditions[i].Expression, expression.Condition)
}

// failures returns the outcomes of a match condition for the requests for which no other one is false: an error counts
// only for these.
func (c *conditioned) failures(i int) outcomes {
	others := slices.Delete(slices.Clone(c.conditions), i, i+1)
	return outcomesOf(judged(c.requests, c.variables, others), true, c.variables, c.conditions[i].Expression,
		expression.Condition)
}

func (l *linting) conditionInvalid() {
	for _, w := range l.Webhooks {
		for i, c := range w.MatchConditions {
			if err := l.compiler.Check(strings.TrimSpace(c.Expression)); err != nil {
				l.add(at(w, fmt.Sprintf("matchConditions/%d/expression", i)), Error, change{},
					fmt.Sprintf("match condition %s: %v: API servers refuse the configuration", c.Name, err), "correct it")
			}
		}
	}
}

func (l *linting) conditionNever() {
	for _, c := range l.conditioned() {
		for i, condition := range c.conditions {
			switch o := c.outcomes(i); {
			case o.are(expression.AlwaysNot):
				l.add(c.at(i), Warning, change{}, fmt.Sprintf("match condition %s is false for every request of the rules: "+
					"nothing is ever judged", condition.Name), "correct the condition, or the rules")
			case !o.are(expression.Fails) && o.are(expression.AlwaysNot, expression.Fails):
				l.add(c.at(i), Warning, change{}, fmt.Sprintf("match condition %s is true for no request of the rules: it is "+
					"false, or fails (%s), and then failurePolicy decides", condition.Name, o.failure), "correct the condition")
			}
		}
	}
}

func (l *linting) conditionAlways() {
	for _, c := range l.conditioned() {
		for i, condition := range c.conditions {
			if o := c.outcomes(i); o.are(expression.AlwaysTrue) {
				l.add(c.at(i), Warning, change{}, fmt.Sprintf("match condition %s is true for every request of the rules: it "+
					"has no effect", condition.Name), "remove the condition, or correct it")
			}
		}
	}
}

// namespaceFields are the fields that only say in which namespace a request is.
var namespaceFields = []string{"request.namespace", "object.metadata.namespace", "oldObject.metadata.namespace"}

// conditionSelector looks for conditions that only depend on the namespace. Selectors are evaluated before
// them, and once for all webhooks that have the same.
func (l *linting) conditionSelector() {
	for _, c := range l.conditioned() {
		for i, condition := range c.conditions {
			fields, err := expression.Reads(condition.Expression)
			if err != nil || len(fields) == 0 || slices.ContainsFunc(fields, func(f string) bool {
				return !slices.Contains(namespaceFields, f)
			}) {
				continue
			}
			l.add(c.at(i), Warning, change{}, fmt.Sprintf("match condition %s only depends on the namespace: it is evaluated "+
				"for each request, while a namespaceSelector is evaluated first, and is what tools and people look for",
				condition.Name), "use a namespaceSelector on kubernetes.io/metadata.name (objects without a namespace are "+
				"always selected)")
		}
	}
}
