// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/expression"
)

// A Cost is how expensive a policy can get for the largest objects of a kind, in the units of Kubernetes'
// budgets. Expressions whose cost can't be estimated are left out.
type Cost struct {
	Kind schema.GroupVersionKind
	// Conditions is the cost of the match conditions, Validations that of the validations, their messages and the
	// variables. These have budgets of their own.
	Conditions, Validations Sum
}

// A Sum is the cost of several expressions.
type Sum struct {
	Total uint64
	// Path is the path of the most expensive one, and Highest its cost.
	Path    string
	Highest uint64
}

func (s *Sum) add(path string, cost uint64) {
	s.Total = add(s.Total, cost)
	if cost > s.Highest {
		s.Path, s.Highest = path, cost
	}
}

// Costs returns the costs of a policy for each kind of its rules whose schema is known.
func (t *Types) Costs(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (costs []Cost) {
	kinds, _ := t.kinds(policy)
	expressions := expressionsOf(policy)
	for _, kind := range kinds {
		typed, err := t.typedFor(kind, paramsOf(policy))
		if err != nil {
			continue // nothing bounds its objects
		}
		cost := Cost{Kind: kind}
		for i, units := range typed.EstimateCosts(policy.Spec.Variables, texts(expressions)...) {
			if units == expression.UnknownCost {
				continue
			}
			switch e := expressions[i]; e.use {
			case condition:
				cost.Conditions.add(e.path, units)
			case validation:
				cost.Validations.add(e.path, units)
			}
		}
		costs = append(costs, cost)
	}
	return costs
}
