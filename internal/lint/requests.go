// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/matching"
)

// A constraint says which requests a webhook or a policy is for.
type constraint struct {
	rules []admissionregistrationv1.RuleWithOperations
	// excluded are the rules of what a policy leaves out.
	excluded    []admissionregistrationv1.NamedRuleWithOperations
	matchPolicy admissionregistrationv1.MatchPolicyType
	// mutating reports whether it is asked in the mutating phase.
	mutating bool
}

// constraintOf returns the constraint of a policy.
func constraintOf(p *inventory.Policy) *constraint {
	c := &constraint{matchPolicy: admissionregistrationv1.Equivalent, mutating: p.Mutating != nil}
	if p.Constraints == nil {
		return c
	}
	for _, r := range p.Constraints.ResourceRules {
		c.rules = append(c.rules, r.RuleWithOperations)
	}
	c.excluded = p.Constraints.ExcludeResourceRules
	if p.Constraints.MatchPolicy != nil {
		c.matchPolicy = *p.Constraints.MatchPolicy
	}
	return c
}

// A request is one that a rule is for, before it comes.
type request struct {
	operation admission.Operation
	// conditions is what match conditions know about it, expressions what the other expressions of a policy know: they
	// see the resource of the rule in place of an equivalent one.
	conditions, expressions expression.Known
}

// A target is a resource with one of its operations, and how a rule sees a request for it.
type target struct {
	*inventory.Resource
	operation admission.Operation
	match     matching.Match
}

// targets returns the known resources and operations that a rule matches.
func (l *linting) targets(rule *admissionregistrationv1.RuleWithOperations,
	policy admissionregistrationv1.MatchPolicyType) (all []target) {
	everything := &metav1.LabelSelector{}
	criteria := matching.NewWebhookCriteria([]admissionregistrationv1.RuleWithOperations{*rule}, &policy, everything, everything)
	index := matching.NewIndex(func(r *matching.Resolver) []*matching.Candidate {
		if found := r.Resolve(criteria); found != nil {
			return []*matching.Candidate{found}
		}
		return nil
	})
	for i := range l.Resources {
		r := &l.Resources[i]
		if !slices.ContainsFunc(rule.Resources, func(pattern string) bool {
			name, _, _ := strings.Cut(pattern, "/")
			return name == "*" || name == r.GroupVersionResource.Resource
		}) {
			continue
		}
		for _, operation := range r.Operations {
			a := attributesOf(r, operation, nil)
			candidates := index.Candidates(matching.TargetOf(a), l.Equivalents)
			if len(candidates) == 0 {
				continue
			}
			q := matching.NewRequest(a, nil, matching.Namespaces{})
			if match, mismatch, err := q.Match(l.ctx, candidates[0]); err == nil && mismatch == matching.Matches {
				all = append(all, target{r, operation, match})
			}
		}
	}
	return all
}

// attributesOf returns the attributes of a request for a resource, with examples of names.
func attributesOf(r *inventory.Resource, operation admission.Operation, who user.Info) admission.Attributes {
	var options runtime.Object
	stated := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: kind}
	}
	switch operation {
	case admission.Create:
		options = &metav1.CreateOptions{TypeMeta: stated("CreateOptions")}
	case admission.Update:
		options = &metav1.UpdateOptions{TypeMeta: stated("UpdateOptions")}
	case admission.Delete:
		options = &metav1.DeleteOptions{TypeMeta: stated("DeleteOptions")}
	}
	namespace := ""
	if r.Namespaced || isNamespaces(r) {
		namespace = "any"
	}
	return admission.NewAttributesRecord(nil, nil, r.Kind, namespace, "any", r.GroupVersionResource, r.Subresource,
		operation, options, false, who)
}

// isNamespaces reports whether a resource is that of Namespaces. A request for one counts as in it.
func isNamespaces(r *inventory.Resource) bool {
	return r.Group == "" && r.GroupVersionResource.Resource == "namespaces"
}

// exampleFields are the fields of a request of which attributesOf has no more than examples.
var exampleFields = []string{"name", "dryRun", "options.dryRun", "options.fieldManager", "options.fieldValidation",
	"options.gracePeriodSeconds", "options.preconditions", "options.orphanDependents", "options.propagationPolicy",
	"options.ignoreStoreReadErrorWithClusterBreakingPotential"}

// maxRequests bounds the requests that expressions are tried with.
const maxRequests = 200

// requests returns the requests that a constraint is for, as a server describes them. who makes them; nil for anybody.
func (l *linting) requests(c *constraint, who user.Info) (all []request) {
	var excluded *matching.Index[*matching.Candidate]
	if len(c.excluded) > 0 {
		criteria := matching.NewResourceCriteria(&admissionregistrationv1.MatchResources{ExcludeResourceRules: c.excluded,
			MatchPolicy: &c.matchPolicy, NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}})
		excluded = matching.NewIndex(func(r *matching.Resolver) []*matching.Candidate {
			return slices.DeleteFunc([]*matching.Candidate{r.Resolve(criteria)}, func(c *matching.Candidate) bool { return c == nil })
		})
	}
	for rule := range elements(c.rules) {
		group := rule.APIGroups[0]
		if group == "*" { // it may be anything
			all = append(all, describeCustom(rule, who))
			continue
		}
		found := l.targets(rule, c.matchPolicy)
		for _, t := range found {
			a := attributesOf(t.Resource, t.operation, who)
			if excluded == nil || len(excluded.Candidates(matching.TargetOf(a), l.Equivalents)) > 0 {
				all = append(all, describe(a, t, c.mutating))
			}
		}
		resource, _, _ := strings.Cut(rule.Resources[0], "/")
		if l.mayHaveMore(group) && (resource == "*" || len(found) == 0) {
			all = append(all, describeCustom(rule, who))
		}
	}
	if len(c.rules) == 0 || len(all) > maxRequests {
		return []request{{conditions: expression.Known{NoNamespace: true}}}
	}
	return all
}

// mayHaveMore reports whether a group may have other resources than those that are known: it is neither one of
// Kubernetes nor one without a dot, which custom resources can't be in.
func (l *linting) mayHaveMore(group string) bool {
	return strings.Contains(group, ".") && !slices.ContainsFunc(inventory.BuiltIn(), func(r inventory.Resource) bool {
		return r.Group == group
	})
}

// elements returns the rules that name one operation, group, version and resource, of which rules consist.
func elements(rules []admissionregistrationv1.RuleWithOperations) func(func(*admissionregistrationv1.RuleWithOperations) bool) {
	return func(yield func(*admissionregistrationv1.RuleWithOperations) bool) {
		for i := range rules {
			for _, operation := range operationsOf(&rules[i]) {
				for _, group := range rules[i].APIGroups {
					for _, version := range rules[i].APIVersions {
						for _, resource := range rules[i].Resources {
							if !yield(&admissionregistrationv1.RuleWithOperations{
								Operations: []admissionregistrationv1.OperationType{operation},
								Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version},
									Resources: []string{resource}, Scope: rules[i].Scope}}) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// operationsOf returns the operations of a rule.
func operationsOf(r *admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.OperationType {
	if slices.Contains(r.Operations, admissionregistrationv1.OperationAll) {
		return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update,
			admissionregistrationv1.Delete, admissionregistrationv1.Connect}
	}
	return r.Operations
}

// describe returns what is known about a request for a target.
func describe(a admission.Attributes, t target, mutating bool) request {
	known := expression.Known{Unknown: slices.Clone(exampleFields), NoObject: t.operation == admission.Delete,
		NoOldObject: t.operation == admission.Create || t.operation == admission.Connect, Kind: t.match.Kind,
		NoNamespace: !t.Namespaced}
	if a.GetUserInfo() == nil {
		known.Unknown = append(known.Unknown, "userInfo")
	}
	if a.GetNamespace() != "" {
		known.Unknown = append(known.Unknown, "namespace")
	}
	// A server sets the uid of a new object between the phases.
	//
	// Source: k8s.io/apiserver/pkg/registry/rest/meta.go#WipeObjectMetaSystemFields bfe06d54
	if t.operation == admission.Create && t.Subresource == "" {
		known.Lacks = []string{"deletionTimestamp", "deletionGracePeriodSeconds"}
		if mutating {
			known.Lacks = append(known.Lacks, "uid")
		}
	}
	return twice(a, t.match, known)
}

// twice returns a request as match conditions and as other expressions see it.
func twice(a admission.Attributes, match matching.Match, known expression.Known) request {
	q := matching.NewRequest(a, nil, matching.Namespaces{})
	r := request{operation: a.GetOperation(), conditions: known, expressions: known}
	r.conditions.Request, r.conditions.NoNamespace = q.Describe(match.Kind, a.GetResource()), true
	r.expressions.Request = q.Describe(match.Kind, match.Resource)
	return r
}

// describeCustom returns what is known about a request for a custom resource whose definition isn't known, or for a
// resource that a wildcard stands for.
func describeCustom(rule *admissionregistrationv1.RuleWithOperations, who user.Info) request {
	operation := admission.Operation(rule.Operations[0])
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	r := &inventory.Resource{GroupVersionResource: schema.GroupVersionResource{Group: rule.APIGroups[0],
		Version: rule.APIVersions[0], Resource: resource}, Namespaced: true, Subresource: subresource}
	// The version of the request may be another one, which is converted.
	known := expression.Known{Unknown: append(slices.Clone(exampleFields), "namespace", "kind", "requestKind",
		"requestResource", "resource.version"), NoObject: operation == admission.Delete,
		NoOldObject: operation == admission.Create || operation == admission.Connect}
	if who == nil {
		known.Unknown = append(known.Unknown, "userInfo")
	}
	if r.Group == "*" {
		known.Unknown = append(known.Unknown, "resource.group")
	}
	if resource == "*" {
		known.Unknown = append(known.Unknown, "resource.resource")
	}
	if subresource == "*" {
		known.Unknown = append(known.Unknown, "subResource", "requestSubResource")
	}
	return twice(attributesOf(r, operation, who), matching.Match{Resource: r.GroupVersionResource}, known)
}

// judged returns the requests for which no match condition is false.
func judged(requests []request, variables []admissionregistrationv1.Variable,
	conditions []admissionregistrationv1.MatchCondition) (some []request) {
	for _, r := range requests {
		partial := expression.NewPartial(r.conditions)
		partial.Declare(variables)
		if !slices.ContainsFunc(conditions, func(c admissionregistrationv1.MatchCondition) bool {
			outcome, _, err := partial.Outcome(c.Expression, expression.Condition)
			return err == nil && outcome == expression.AlwaysNot
		}) {
			some = append(some, r)
		}
	}
	return some
}

// Outcomes are what is known about an expression for each of some requests.
type outcomes struct {
	all []expression.Outcome
	// failing are the operations for which it always fails, and failure the error of one. partly and part are those
	// for which an operand does, so that the rest decides or the whole fails.
	failing, partly []string
	failure, part   string
}

// outcomesOf returns the outcomes of an expression. They are empty if it doesn't compile.
func outcomesOf(requests []request, conditions bool, variables []admissionregistrationv1.Variable, text string,
	kind *expression.Kind) (o outcomes) {
	for _, r := range requests {
		known := r.expressions
		if conditions {
			known = r.conditions
		}
		p := expression.NewPartial(known)
		p.Declare(variables)
		outcome, message, err := p.Outcome(text, kind)
		if err != nil {
			return outcomes{}
		}
		operation := string(r.operation)
		switch {
		case outcome == expression.Fails:
			o.failure = message
			if !slices.Contains(o.failing, operation) {
				o.failing = append(o.failing, operation)
			}
		case message != "":
			o.part = message
			if !slices.Contains(o.partly, operation) {
				o.partly = append(o.partly, operation)
			}
		}
		o.all = append(o.all, outcome)
	}
	return o
}

// are reports whether there are outcomes, and all are among some.
func (o *outcomes) are(some ...expression.Outcome) bool {
	return len(o.all) > 0 && !slices.ContainsFunc(o.all, func(o expression.Outcome) bool { return !slices.Contains(some, o) })
}
