// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/policy/mutation"
)

// mutator is one mutation of a policy, ready to be evaluated.
type mutator struct {
	expression *expression.Expression
	patch      bool
	// field is the path of the expression in the policy.
	field string
}

func (m *mutations) prepare() {
	for i := range m.mutators {
		_ = m.mutators[i].expression.Prepare()
	}
}

// newMutators returns a policy's mutations. They are compiled when they are first evaluated. A
// mutation without an expression, which API validation refuses, is left out.
func newMutators(c *expression.Composition, stated []admissionregistrationv1.Mutation) []mutator {
	mutators := make([]mutator, 0, len(stated))
	for i, m := range stated {
		switch {
		case m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			mutators = append(mutators, mutator{
				expression: c.Expression(m.ApplyConfiguration.Expression, expression.ApplyConfiguration),
				field:      fmt.Sprintf("spec.mutations[%d].applyConfiguration.expression", i),
			})
		case m.PatchType == admissionregistrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			mutators = append(mutators, mutator{
				expression: c.Expression(m.JSONPatch.Expression, expression.JSONPatch), patch: true,
				field: fmt.Sprintf("spec.mutations[%d].jsonPatch.expression", i),
			})
		}
	}
	return mutators
}

// mutate evaluates the mutation, applies the result to the object, and reports whether that changed
// it. Each mutation has a budget of its own.
func (m *mutator) mutate(ctx context.Context, run *expression.Run, o *mutation.Object) (changed bool, err error) {
	if err := m.expression.Prepare(); err != nil {
		return false, err
	}
	result, err := run.Evaluate(ctx, m.expression)
	if err != nil {
		return false, err
	}
	if result.Err != nil {
		return false, result.Err
	}
	if m.patch {
		patch, err := expression.Patch(result.Value)
		if err != nil {
			return false, err
		}
		return o.Patch(patch)
	}
	configuration, err := expression.Configuration(result.Value)
	if err != nil {
		return false, err
	}
	return o.Apply(configuration)
}
