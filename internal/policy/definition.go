// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
)

// action is what a policy of one kind does: validations or mutations.
type action interface {
	// prepare compiles the expressions that haven't been compiled yet.
	prepare()
}

// definition is a policy of either kind, compiled and ready to be matched and evaluated. It never
// changes.
type definition[E action] struct {
	name string
	// static reports whether the policy comes from a file, out of the API's reach.
	static   bool
	criteria *matching.Criteria
	// failurePolicy is Fail if the policy doesn't set it.
	failurePolicy admissionregistrationv1.FailurePolicyType
	// paramKind is nil for a policy without params.
	paramKind  *admissionregistrationv1.ParamKind
	paramGVK   schema.GroupVersionKind
	conditions *expression.Conditions
	action     E
}

// policySpec holds the fields of a policy's spec that both kinds have.
type policySpec struct {
	name             string
	matchConstraints *admissionregistrationv1.MatchResources
	failurePolicy    *admissionregistrationv1.FailurePolicyType
	paramKind        *admissionregistrationv1.ParamKind
	variables        []admissionregistrationv1.Variable
	matchConditions  []admissionregistrationv1.MatchCondition
}

// define compiles a policy. newAction is called last, with the definition that its result will
// belong to. Like everything that is made from configurations, define doesn't fail: an error in the
// policy is an error of each request that the policy matches.
func define[E action](compiler *expression.Compiler, s policySpec, static bool,
	newAction func(*expression.Composition, *definition[E]) E) *definition[E] {
	composition := compiler.Compose(s.variables, s.paramKind != nil)
	d := &definition[E]{
		name:          s.name,
		static:        static,
		criteria:      matching.NewResourceCriteria(s.matchConstraints),
		failurePolicy: admissionregistrationv1.Fail,
		paramKind:     s.paramKind,
		conditions:    composition.Conditions(s.matchConditions),
	}
	if s.failurePolicy != nil {
		d.failurePolicy = *s.failurePolicy
	}
	if s.paramKind != nil {
		d.paramGVK = schema.FromAPIVersionAndKind(s.paramKind.APIVersion, s.paramKind.Kind)
	}
	d.action = newAction(composition, d)
	return d
}

// prepare compiles the policy's expressions. An expression that doesn't compile is an error of each
// request that evaluates it.
func (d *definition[E]) prepare() {
	_ = d.conditions.Prepare()
	d.action.prepare()
}

// ignoresFailures reports whether the policy lets requests pass that it can't evaluate.
func (d *definition[E]) ignoresFailures() bool {
	return d.failurePolicy == admissionregistrationv1.Ignore
}

// binding puts a policy in force. It never changes.
type binding struct {
	name, policy string
	static       bool
	criteria     *matching.Criteria
	paramRef     *admissionregistrationv1.ParamRef
	// paramSelector is the parsed selector of paramRef.
	paramSelector paramSelector
	// validationActions says what happens if a validation fails.
	validationActions []admissionregistrationv1.ValidationAction
}

func newBinding(name, policy string, static bool, resources *admissionregistrationv1.MatchResources,
	ref *admissionregistrationv1.ParamRef, actions []admissionregistrationv1.ValidationAction) *binding {
	b := &binding{name: name, policy: policy, static: static, criteria: matching.NewResourceCriteria(resources),
		paramRef: ref, validationActions: actions}
	if ref != nil && ref.Selector != nil {
		b.paramSelector = newParamSelector(ref.Selector)
	}
	return b
}

// configError wraps an error in the configuration of a policy or, if b isn't nil, of a binding. The
// words are upstream's.
func configError(b *binding, err error) error {
	if b == nil {
		return fmt.Errorf("failed to configure policy: %w", err)
	}
	return fmt.Errorf("failed to configure binding: %w", err)
}
