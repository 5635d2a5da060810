// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

// Rules returns the webhook rules for exactly the requests about which an API server has to ask the
// plugins of a phase: one rule for all resources of a group that have the same operations. A plugin
// that is asked about everything is asked about everything in all groups.
func Rules(plugins []plugin.Descriptor, phase plugin.Phase) []admissionregistrationv1.RuleWithOperations {
	type asked struct{ group, resource string }
	wanted := map[asked][]admission.Operation{}
	for i := range plugins {
		p := &plugins[i]
		if !p.Phases.Has(phase) {
			continue
		}
		operations := p.Operations
		if len(operations) == 0 {
			operations = plugin.EveryOperation
		}
		about := []asked{{"*", "*/*"}}
		if len(p.Resources) > 0 {
			about = nil
			for _, r := range p.Resources {
				if r.Group == "extensions" { // no cluster serves it: its workloads are in apps
					continue
				}
				about = append(about, asked{r.Group, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")})
			}
		}
		for _, a := range about {
			for _, o := range operations {
				if !slices.Contains(wanted[a], o) {
					wanted[a] = append(wanted[a], o)
				}
			}
		}
	}
	byRule := map[string]*admissionregistrationv1.RuleWithOperations{}
	var keys []string
	for a, operations := range wanted {
		var names []admissionregistrationv1.OperationType
		for _, o := range plugin.EveryOperation {
			// a rule for everything covers the same operations of this resource
			if slices.Contains(operations, o) && (a.group == "*" || !slices.Contains(wanted[asked{"*", "*/*"}], o)) {
				names = append(names, admissionregistrationv1.OperationType(o))
			}
		}
		if len(names) == 0 {
			continue
		}
		key := a.group + "|"
		for _, name := range names {
			key += string(name) + ","
		}
		rule := byRule[key]
		if rule == nil {
			scope := admissionregistrationv1.AllScopes
			rule = &admissionregistrationv1.RuleWithOperations{Operations: names,
				Rule: admissionregistrationv1.Rule{APIGroups: []string{a.group}, APIVersions: []string{"*"},
					Scope: &scope}}
			byRule[key] = rule
			keys = append(keys, key)
		}
		rule.Resources = append(rule.Resources, a.resource)
	}
	slices.Sort(keys)
	rules := make([]admissionregistrationv1.RuleWithOperations, 0, len(keys))
	for _, key := range keys {
		slices.Sort(byRule[key].Resources)
		rules = append(rules, *byRule[key])
	}
	return rules
}
