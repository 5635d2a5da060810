// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/inventory"
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
	// noNamespace reports whether namespaceObject is always null, as it is for webhooks.
	noNamespace bool
	rules       []admissionregistrationv1.RuleWithOperations
	variables   []admissionregistrationv1.Variable
	conditions  []admissionregistrationv1.MatchCondition
}

// at returns the place of a match condition.
func (c *conditioned) at(i int) place {
	p := c.place
	p.path = fmt.Sprintf("%s/%d/expression", c.path, i)
	return p
}

// conditioned returns all webhooks and policies.
func (l *linting) conditioned() (all []conditioned) {
	for _, w := range l.Webhooks {
		all = append(all, conditioned{place: at(w, "matchConditions"), noNamespace: true, rules: w.Rules,
			conditions: w.MatchConditions})
	}
	for _, p := range l.Policies {
		all = append(all, conditioned{place: place{p.Document, "/spec/matchConditions", ""}, rules: rulesOf(p),
			variables: p.Variables, conditions: p.MatchConditions})
	}
	return all
}

// rulesOf returns the rules of a policy.
func rulesOf(p *inventory.Policy) (rules []admissionregistrationv1.RuleWithOperations) {
	if p.Constraints != nil {
		for _, r := range p.Constraints.ResourceRules {
			rules = append(rules, r.RuleWithOperations)
		}
	}
	return rules
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

// maxCombinations bounds the combinations of operations and resources that expressions are tried with.
const maxCombinations = 200

// combinations returns what the rules say about each request that they are for. A wildcard says nothing.
func (l *linting) combinations(rules []admissionregistrationv1.RuleWithOperations, noNamespace bool) (
	all []expression.Known) {
	for _, r := range rules {
		operations := r.Operations
		if slices.Contains(operations, admissionregistrationv1.OperationAll) {
			operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update,
				admissionregistrationv1.Delete, admissionregistrationv1.Connect}
		}
		for _, operation := range operations {
			for _, group := range r.APIGroups {
				for _, version := range r.APIVersions {
					for _, pattern := range r.Resources {
						all = append(all, l.known(operation, group, version, pattern, noNamespace))
					}
				}
			}
		}
	}
	if len(all) == 0 || len(all) > maxCombinations {
		return []expression.Known{{NoNamespace: noNamespace}}
	}
	return all
}

// known returns what a rule's parts say about a request. With matchPolicy Equivalent, group and version are
// those of the request, and so may be others.
func (l *linting) known(operation admissionregistrationv1.OperationType, group, version, pattern string,
	noNamespace bool) expression.Known {
	resource, subresource, _ := strings.Cut(pattern, "/")
	about := map[string]any{}
	request := map[string]any{"operation": string(operation), "resource": about}
	if group != "*" {
		about["group"] = group
	}
	if version != "*" {
		about["version"] = version
	}
	if resource != "*" {
		about["resource"] = resource
	}
	if subresource != "*" {
		request["subResource"] = subresource
	}
	var kind schema.GroupVersionKind
	if !strings.ContainsAny(group+version+pattern, "*/") && operation != admissionregistrationv1.Connect {
		// The object is in the version of the rule, whatever that of the request is.
		kind = l.KindFor(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	}
	return expression.Known{Request: request, NoNamespace: noNamespace, Kind: kind,
		NoObject:    operation == admissionregistrationv1.Delete,
		NoOldObject: operation == admissionregistrationv1.Create || operation == admissionregistrationv1.Connect}
}

// outcomes returns what is known about an expression for each of the combinations, and a message of one that
// fails. It returns nil if the expression doesn't compile.
func outcomes(combinations []expression.Known, variables []admissionregistrationv1.Variable,
	text string) (all []expression.Outcome, message string) {
	for _, k := range combinations {
		p := expression.NewPartial(k)
		p.Declare(variables)
		outcome, failure, err := p.Outcome(text)
		if err != nil {
			return nil, ""
		}
		if failure != "" {
			message = failure
		}
		all = append(all, outcome)
	}
	return all, message
}

// only reports whether there are outcomes, and all are among some.
func only(all []expression.Outcome, some ...expression.Outcome) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(o expression.Outcome) bool { return !slices.Contains(some, o) })
}

func (l *linting) conditionNever() {
	for _, c := range l.conditioned() {
		combinations := l.combinations(c.rules, c.noNamespace)
		for i, condition := range c.conditions {
			all, message := outcomes(combinations, c.variables, condition.Expression)
			switch {
			case only(all, expression.AlwaysNot):
				l.add(c.at(i), Warning, change{}, fmt.Sprintf("match condition %s is false for every request of the rules: "+
					"nothing is ever judged", condition.Name), "correct the condition, or the rules")
			case only(all, expression.AlwaysNot, expression.Fails):
				l.add(c.at(i), Warning, change{}, fmt.Sprintf("match condition %s is true for no request of the rules: it fails "+
					"(%s), and then failurePolicy decides", condition.Name, message), "correct the condition")
			}
		}
	}
}

func (l *linting) conditionAlways() {
	for _, c := range l.conditioned() {
		combinations := l.combinations(c.rules, c.noNamespace)
		for i, condition := range c.conditions {
			if all, _ := outcomes(combinations, c.variables, condition.Expression); only(all, expression.AlwaysTrue) {
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
