// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"gatehouse.dev/internal/review/input"
)

// A Policy is a ValidatingAdmissionPolicy or a MutatingAdmissionPolicy: one of Validating and Mutating is set.
type Policy struct {
	Document   input.Document
	Validating *admissionregistrationv1.ValidatingAdmissionPolicy
	Mutating   *admissionregistrationv1.MutatingAdmissionPolicy
	// The fields that both kinds have.
	ParamKind       *admissionregistrationv1.ParamKind
	Constraints     *admissionregistrationv1.MatchResources
	Variables       []admissionregistrationv1.Variable
	MatchConditions []admissionregistrationv1.MatchCondition
	// Fails reports whether a request is refused if the policy can't be evaluated.
	Fails bool
}

func newPolicy(d input.Document, stored bool) (*Policy, error) {
	p := &Policy{Document: d}
	fails := func(f *admissionregistrationv1.FailurePolicyType) bool {
		return f == nil || *f == admissionregistrationv1.Fail
	}
	if d.Object.GetKind() == "MutatingAdmissionPolicy" {
		return p, decodeStrict(d.Object, stored, func(o *admissionregistrationv1.MutatingAdmissionPolicy) {
			p.Mutating, p.ParamKind, p.Constraints = o, o.Spec.ParamKind, o.Spec.MatchConstraints
			p.Variables, p.MatchConditions, p.Fails = o.Spec.Variables, o.Spec.MatchConditions, fails(o.Spec.FailurePolicy)
		})
	}
	return p, decodeStrict(d.Object, stored, func(o *admissionregistrationv1.ValidatingAdmissionPolicy) {
		p.Validating, p.ParamKind, p.Constraints = o, o.Spec.ParamKind, o.Spec.MatchConstraints
		p.Variables, p.MatchConditions, p.Fails = o.Spec.Variables, o.Spec.MatchConditions, fails(o.Spec.FailurePolicy)
	})
}

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.Document.Object.GetName() }

// A Binding is a ValidatingAdmissionPolicyBinding or a MutatingAdmissionPolicyBinding.
type Binding struct {
	Document input.Document
	// Mutating reports which kind it is.
	Mutating   bool
	PolicyName string
	ParamRef   *admissionregistrationv1.ParamRef
	Resources  *admissionregistrationv1.MatchResources
	// Actions are the validation actions; nil for a MutatingAdmissionPolicyBinding.
	Actions []admissionregistrationv1.ValidationAction
}

func newBinding(d input.Document, stored bool) (*Binding, error) {
	b := &Binding{Document: d}
	if b.Mutating = d.Object.GetKind() == "MutatingAdmissionPolicyBinding"; b.Mutating {
		return b, decodeStrict(d.Object, stored, func(o *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
			b.PolicyName, b.ParamRef, b.Resources = o.Spec.PolicyName, o.Spec.ParamRef, o.Spec.MatchResources
		})
	}
	return b, decodeStrict(d.Object, stored, func(o *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
		b.PolicyName, b.ParamRef, b.Resources = o.Spec.PolicyName, o.Spec.ParamRef, o.Spec.MatchResources
		b.Actions = o.Spec.ValidationActions
	})
}

// Binds reports whether the binding is one of the policy.
func (b *Binding) Binds(p *Policy) bool {
	return b.PolicyName == p.Name() && b.Mutating == (p.Mutating != nil)
}

// A Definition is a CustomResourceDefinition.
type Definition struct {
	Document input.Document
	apiextensionsv1.CustomResourceDefinition
}

func newDefinition(d input.Document) (*Definition, error) {
	definition := &Definition{Document: d}
	return definition, decodeInto(d.Object, func(o *apiextensionsv1.CustomResourceDefinition) {
		definition.CustomResourceDefinition = *o
	})
}
