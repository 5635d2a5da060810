// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/kindtypes"
)

var costRules = []Rule{
	{"cost-static", Error, "a rule of a CustomResourceDefinition is near the limit of costs", (*linting).costStatic},
	{"cost-runtime", Warning, "expressions can use up their budget", (*linting).costRuntime},
}

// near is the part of a limit that costs may use, in percent.
const near = 80

// isNear reports whether a cost is above that part of a limit.
func isNear(cost, limit uint64) bool { return cost > limit/100*near }

// costStatic looks for rules of CustomResourceDefinitions. They have the only limit of estimated costs: of the
// expressions of policies, API servers don't know the types when the policy is written.
func (l *linting) costStatic() {
	const remedy = "bound what the rule loops over with maxItems, maxProperties and maxLength, or simplify the rule"
	for _, d := range l.Definitions {
		for i := range d.Spec.Versions {
			v := &d.Spec.Versions[i]
			costs, total, err := kindtypes.RuleCosts(v)
			if err != nil {
				continue // API servers say what is wrong with the schema
			}
			path := fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema", i)
			refused := false
			for _, c := range costs {
				if !isNear(c.Cost, kindtypes.MaxRuleCost) {
					continue
				}
				severity, end := Warning, "a larger bound in its schema may have API servers refuse the definition"
				if c.Cost > kindtypes.MaxRuleCost {
					severity, end, refused = Error, "API servers refuse the definition", true
				}
				l.add(place{d.Document, path + c.Path, v.Name}, severity, change{}, fmt.Sprintf("its estimated cost is %s, and the "+
					"limit is %s: %s", units(c.Cost), units(kindtypes.MaxRuleCost), end), remedy)
			}
			if refused || !isNear(total, kindtypes.MaxDefinitionCost) {
				continue
			}
			severity, end := Warning, "another rule may have API servers refuse the definition"
			if total > kindtypes.MaxDefinitionCost {
				severity, end = Error, "API servers refuse the definition"
			}
			l.add(place{d.Document, path, v.Name}, severity, change{}, fmt.Sprintf("the estimated cost of all rules of the version "+
				"is %s, and the limit is %s: %s", units(total), units(kindtypes.MaxDefinitionCost), end), remedy)
		}
	}
}

// costRuntime looks for expressions that can cost more than a request may: those of a policy, and match
// conditions.
func (l *linting) costRuntime() {
	for _, p := range l.Policies {
		if p.Validating != nil {
			l.overBudget(place{p.Document, "", ""}, p.Validating, "", p.Fails)
		}
	}
	for _, w := range l.Webhooks {
		if len(w.MatchConditions) > 0 {
			l.overBudget(at(w, ""), conditionsAlone(w), w.Path(""), w.Fails())
		}
	}
}

// conditionsAlone returns a policy with a webhook's rules and match conditions.
func conditionsAlone(w *inventory.Webhook) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{}
	for _, r := range w.Rules {
		p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules,
			admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	p.Spec.MatchConditions = w.MatchConditions
	return p
}

// overBudget adds a finding for each of the budgets of a policy that its most expensive kind can use up. In place
// of /spec, the paths of expressions begin with prefix if that is set.
func (l *linting) overBudget(p place, policy *admissionregistrationv1.ValidatingAdmissionPolicy, prefix string, fails bool) {
	var conditions, validations kindtypes.Cost
	for _, c := range l.types().Costs(policy) {
		if c.Conditions.Total > conditions.Conditions.Total {
			conditions = c
		}
		if c.Validations.Total > validations.Validations.Total {
			validations = c
		}
	}
	end := "a request with such an object passes unjudged"
	if fails {
		end = "a request with such an object is refused"
	}
	for _, of := range []struct {
		what   string
		kind   string
		sum    kindtypes.Sum
		budget uint64
	}{
		{"the match conditions", conditions.Kind.Kind, conditions.Conditions, celconfig.RuntimeCELCostBudgetMatchConditions},
		{"the validations", validations.Kind.Kind, validations.Validations, celconfig.RuntimeCELCostBudget},
	} {
		if !isNear(of.sum.Total, of.budget) {
			continue
		}
		expensive := pointerOf(of.sum.Path)
		if prefix != "" {
			expensive = prefix + strings.TrimPrefix(expensive, "/spec")
		}
		p.path = expensive
		l.add(p, Warning, change{}, fmt.Sprintf("for the largest %s that its schema allows, %s can cost %s, and their budget is "+
			"%s: beyond it, %s", of.kind, of.what, units(of.sum.Total), units(of.budget), end), "bound the lists, maps and texts of "+
			"the schema if it is yours, or loop over less")
	}
}

// units returns a number of CEL's units of cost with a comma after each thousand.
func units(n uint64) string {
	if n > 1e15 {
		return "more than 10^15"
	}
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
