// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/nearest"
)

var neverRules = []Rule{
	{"rule-never", Warning, "a rule, or a part of it, matches no request", (*linting).ruleNever},
}

// eachRule calls do with each rule of a webhook, a policy and a binding.
func (l *linting) eachRule(do func(p place, r *admissionregistrationv1.RuleWithOperations,
	policy admissionregistrationv1.MatchPolicyType)) {
	for _, w := range l.Webhooks {
		for n := range w.Rules {
			do(at(w, fmt.Sprintf("rules/%d", n)), &w.Rules[n], *w.MatchPolicy)
		}
	}
	resources := func(p place, m *admissionregistrationv1.MatchResources) {
		if m == nil {
			return
		}
		policy := admissionregistrationv1.Equivalent
		if m.MatchPolicy != nil {
			policy = *m.MatchPolicy
		}
		path := p.path
		for n := range m.ResourceRules {
			p.path = fmt.Sprintf("%s/resourceRules/%d", path, n)
			do(p, &m.ResourceRules[n].RuleWithOperations, policy)
		}
		for n := range m.ExcludeResourceRules {
			p.path = fmt.Sprintf("%s/excludeResourceRules/%d", path, n)
			do(p, &m.ExcludeResourceRules[n].RuleWithOperations, policy)
		}
	}
	for _, p := range l.Policies {
		resources(place{p.Document, "/spec/matchConstraints", ""}, p.Constraints)
	}
	for _, b := range l.Bindings {
		resources(place{b.Document, "/spec/matchResources", ""}, b.Resources)
	}
}

// ruleNever looks for groups, resources and operations of rules that no request has.
func (l *linting) ruleNever() {
	l.eachRule(func(p place, r *admissionregistrationv1.RuleWithOperations, policy admissionregistrationv1.MatchPolicyType) {
		element := func(field string, i int) place {
			at := p
			at.path = fmt.Sprintf("%s/%s/%d", p.path, field, i)
			return at
		}
		var groups []string
		for i, group := range r.APIGroups {
			if group == "*" || l.hasGroup(group) || l.mayHaveMore(group) {
				groups = append(groups, group)
				continue
			}
			right, known := l.groupFor(group, r.Resources)
			remedy, c := "name a group that exists; that of pods and services is \"\"", change{}
			if known {
				remedy, c = fmt.Sprintf("name the group %q", right), patched(false, "replace", p.path+fmt.Sprintf("/apiGroups/%d", i), right)
			}
			l.add(element("apiGroups", i), Warning, c, fmt.Sprintf("there is no API group %q: the rule has no effect for it", group),
				remedy)
		}
		if len(groups) == 0 {
			return
		}
		matches := false
		for i, pattern := range r.Resources {
			one := r.DeepCopy()
			one.APIGroups, one.Resources = groups, []string{pattern}
			if len(l.targets(one, policy)) > 0 {
				matches = true
				continue
			}
			why, right := l.whyNever(one)
			switch {
			case why == "":
				matches = true // as far as is known
			case right != "":
				l.add(element("resources", i), Warning, patched(false, "replace", fmt.Sprintf("%s/resources/%d", p.path, i), right),
					why+": the rule has no effect for it", fmt.Sprintf("write %q", right))
			default:
				l.add(element("resources", i), Warning, change{}, why+": the rule has no effect for it",
					"name what requests have, or leave it out")
			}
		}
		for i, operation := range r.Operations {
			one := r.DeepCopy()
			one.Operations = []admissionregistrationv1.OperationType{operation}
			if !matches || operation == admissionregistrationv1.OperationAll || len(l.targets(one, policy)) > 0 ||
				slices.ContainsFunc(groups, func(g string) bool { return g == "*" || l.mayHaveMore(g) }) {
				continue
			}
			l.add(element("operations", i), Warning, change{}, fmt.Sprintf("no request for %s is a %s: the rule has no effect for it",
				sentence(r.Resources), operation), "leave the operation out")
		}
	})
}

// hasGroup reports whether any resource is known to be in a group.
func (l *linting) hasGroup(group string) bool {
	return slices.ContainsFunc(l.Resources, func(r inventory.Resource) bool { return r.Group == group }) ||
		slices.ContainsFunc(l.options.Served, func(s Served) bool { return s.Kind.Group == group })
}

// groupFor returns the group that was meant by one that doesn't exist, by the resources that it is named with.
func (l *linting) groupFor(group string, patterns []string) (right string, known bool) {
	groups := map[string]bool{}
	for i := range l.Resources {
		r := &l.Resources[i]
		for _, pattern := range patterns {
			if name, _, _ := strings.Cut(pattern, "/"); name == r.GroupVersionResource.Resource || isAlias(r, name) {
				groups[r.Group] = true
			}
		}
	}
	switch {
	case group == "core" || len(groups) > 1 && groups[""] && group == "v1":
		return "", true
	case len(groups) == 1:
		return slices.Collect(maps.Keys(groups))[0], true
	}
	return "", false
}

// isAlias reports whether a name is another one of a resource: its kind, or its name in the singular or in capitals.
func isAlias(r *inventory.Resource, name string) bool {
	return r.Subresource == "" && name != r.GroupVersionResource.Resource && (strings.EqualFold(name, r.Singular) ||
		strings.EqualFold(name, r.Kind.Kind) || strings.EqualFold(name, r.GroupVersionResource.Resource))
}

// whyNever says why no request has what a rule with one resource names, and what was meant; empty if that isn't known.
func (l *linting) whyNever(r *admissionregistrationv1.RuleWithOperations) (why, right string) {
	name, subresource, isSub := strings.Cut(r.Resources[0], "/")
	anyGroup := slices.Contains(r.APIGroups, "*")
	some := func(fits func(*inventory.Resource) bool) (all []*inventory.Resource) {
		for i := range l.Resources {
			if found := &l.Resources[i]; fits(found) {
				all = append(all, found)
			}
		}
		return all
	}
	in := func(r2 *inventory.Resource) bool { return anyGroup || slices.Contains(r.APIGroups, r2.Group) }
	open := anyGroup || slices.ContainsFunc(r.APIGroups, l.mayHaveMore)
	named := some(func(r *inventory.Resource) bool {
		return in(r) && (name == "*" || r.GroupVersionResource.Resource == name)
	})
	written := func(resource string) string {
		if isSub {
			return resource + "/" + subresource
		}
		return resource
	}
	if len(named) == 0 {
		for _, everywhere := range []bool{false, true} {
			aliases := some(func(r *inventory.Resource) bool { return (everywhere && !open || in(r)) && isAlias(r, name) })
			if len(aliases) > 0 {
				return fmt.Sprintf("there is no resource %q: rules name %s by their plural, in lower case", name,
					aliases[0].Kind.Kind), written(aliases[0].GroupVersionResource.Resource)
			}
		}
		if open || name == "*" {
			return "", ""
		}
		if elsewhere := some(func(r *inventory.Resource) bool { return r.GroupVersionResource.Resource == name }); len(elsewhere) > 0 {
			return fmt.Sprintf("%s are in the group %q, and not in %s", name, elsewhere[0].Group, quoted(r.APIGroups)), ""
		}
		var known []string
		for _, found := range some(in) {
			known = append(known, found.GroupVersionResource.Resource)
		}
		return fmt.Sprintf("Kubernetes has no resource %q in %s, or has removed it%s", name, quoted(r.APIGroups),
			nearest.Meant(name, known)), ""
	}
	fitting := named
	if subresource != "*" && !(name == "*" && !isSub) {
		fitting = slices.DeleteFunc(slices.Clone(named), func(r *inventory.Resource) bool { return r.Subresource != subresource })
	}
	if len(fitting) == 0 {
		var known []string
		for _, found := range named {
			if found.Subresource != "" && !slices.Contains(known, found.Subresource) {
				known = append(known, found.Subresource)
			}
		}
		return fmt.Sprintf("%s have no subresource %q%s", strings.Replace(name, "*", "these resources", 1), subresource,
			cmp.Or(nearest.Meant(subresource, known), ": they have "+cmp.Or(sentence(known), "none"))), ""
	}
	inVersion := slices.DeleteFunc(slices.Clone(fitting), func(found *inventory.Resource) bool {
		return !slices.Contains(r.APIVersions, "*") && !slices.Contains(r.APIVersions, found.Version)
	})
	if len(inVersion) == 0 {
		return "", "" // another rule says so
	}
	var operations []string
	for _, found := range inVersion {
		for _, operation := range found.Operations {
			if !slices.Contains(operations, string(operation)) {
				operations = append(operations, string(operation))
			}
		}
	}
	if !slices.ContainsFunc(operations, func(o string) bool { return slices.Contains(operationsOf(r), admissionregistrationv1.OperationType(o)) }) {
		if len(operations) == 0 {
			return r.Resources[0] + " are only read", ""
		}
		return fmt.Sprintf("requests for %s are %s, and never %s", r.Resources[0], sentence(operations),
			joined(r.Operations)), ""
	}
	if r.Scope != nil && open && name == "*" {
		return "", ""
	}
	if r.Scope != nil && *r.Scope != admissionregistrationv1.AllScopes {
		where := "in namespaces"
		if !inVersion[0].Namespaced {
			where = "in no namespace"
		}
		return fmt.Sprintf("%s are %s, and the rule's scope is %s", r.Resources[0], where, *r.Scope), ""
	}
	return "", ""
}

// joined lists operations.
func joined(operations []admissionregistrationv1.OperationType) string {
	var words []string
	for _, o := range operations {
		words = append(words, string(o))
	}
	return strings.Join(words, " or ")
}

// quoted lists groups.
func quoted(groups []string) string {
	var words []string
	for _, g := range groups {
		words = append(words, fmt.Sprintf("%q", g))
	}
	return "the group " + strings.Join(words, " or ")
}
