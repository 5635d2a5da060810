// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"io"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/plugin"
)

// validatingPolicy is a ValidatingAdmissionPolicy.
type validatingPolicy = definition[*validations]

// Validating evaluates ValidatingAdmissionPolicies.
type Validating struct{ *engine[*validations] }

var _ plugin.Validator = &Validating{}

// NewValidating returns a Validating. config is a ValidatingAdmissionPolicyConfiguration, or nil.
// env must have Client, Dynamic, Informers, Authorizer, RESTMapper and Done.
func NewValidating(config io.Reader, env *plugin.Env) (*Validating, error) {
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	dir, err := manifestsDir(config, "ValidatingAdmissionPolicyConfiguration")
	if err != nil {
		return nil, err
	}
	api := env.Informers.Admissionregistration().V1()
	policies, bindings := api.ValidatingAdmissionPolicies(), api.ValidatingAdmissionPolicyBindings()
	e, err := newEngine(env, dir, kind[*admissionregistrationv1.ValidatingAdmissionPolicy,
		*admissionregistrationv1.ValidatingAdmissionPolicyBinding, *validations]{
		define: defineValidating, bind: bindValidating,
		policies: policies.Lister().List, bindings: bindings.Lister().List,
		informers: map[string]cache.SharedIndexInformer{"validatingadmissionpolicies": policies.Informer(),
			"validatingadmissionpolicybindings": bindings.Informer()},
		manifests: manifest.ValidatingPolicies,
	})
	if err != nil {
		return nil, err
	}
	return &Validating{e}, nil
}

func defineValidating(compiler *expression.Compiler, p *admissionregistrationv1.ValidatingAdmissionPolicy,
	static bool) *validatingPolicy {
	s := policySpec{p.Name, p.Spec.MatchConstraints, p.Spec.FailurePolicy, p.Spec.ParamKind, p.Spec.Variables,
		p.Spec.MatchConditions}
	return define(compiler, s, static, func(composition *expression.Composition, d *validatingPolicy) *validations {
		return compileValidations(composition, d, &p.Spec)
	})
}

func bindValidating(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding, static bool) *binding {
	return newBinding(b.Name, b.Spec.PolicyName, static, b.Spec.MatchResources, b.Spec.ParamRef,
		b.Spec.ValidationActions)
}

// Validate evaluates all policies that match the request. The refusal names every violation.
func (v *Validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	candidates, err := v.candidates(ctx, a, o)
	if err != nil || len(candidates) == 0 {
		return err
	}
	d := dispatch{ctx: ctx, a: a}
	r := v.request(a, o)
	for i := range candidates {
		if err := d.evaluatePolicy(r, &candidates[i]); err != nil {
			return err
		}
	}
	d.publishFailures()
	return refusal(a, d.violations)
}

// dispatch collects the results of the policies for one request.
type dispatch struct {
	ctx        context.Context
	a          admission.Attributes
	violations []violation
	failures   []validationFailure
}

// evaluatePolicy evaluates one policy and takes the actions of its bindings.
func (d *dispatch) evaluatePolicy(r *request, c *candidate[*validations]) error {
	var collected auditAnnotations
	// once is the result for all params, if the policy doesn't read them.
	var once *judgement
	fail := func(b *binding, err error) {
		if !c.ignoresFailures() {
			d.violations = append(d.violations,
				violation{policy: c.name, binding: b, message: configError(b, err).Error()})
		}
	}
	err := c.visitInvocations(d.ctx, r, fail, func(in *invocation) {
		j, start, took := once, time.Time{}, time.Duration(0)
		if j == nil {
			start = time.Now()
			j = c.action.evaluate(d.ctx, in, func(verdict expression.Verdict) {
				observeConditions(d.ctx, c.name, d.a.GetOperation(), time.Since(start), verdict)
			})
			took = time.Since(start)
			if !c.action.readsParams() {
				once = j
			}
		}
		r.reportJudgement(c.name, in, j, start, took)
		if !j.nothingToDo {
			d.enforce(c.definition, in.binding, j, &collected)
		}
	})
	if err != nil {
		return err
	}
	if d.ctx.Err() != nil {
		// An evaluation that ran out of time says nothing about the policy, so the policy's
		// failurePolicy doesn't apply.
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	collected.publish(c.name, d.a)
	return nil
}

// enforce takes the binding's actions on the result of a policy.
func (d *dispatch) enforce(p *validatingPolicy, b *binding, j *judgement, collected *auditAnnotations) {
	for i := range j.decisions {
		decision := &j.decisions[i]
		if !decision.denied {
			if decision.erred {
				observeValidation(d.ctx, p.name, b.name, decision, "allow")
			}
			continue
		}
		for _, action := range b.validationActions {
			switch action {
			case admissionregistrationv1.Deny:
				d.violations = append(d.violations, violation{p.name, b, decision.message, decision.reason})
				observeValidation(d.ctx, p.name, b.name, decision, "deny")
			case admissionregistrationv1.Audit:
				d.failures = append(d.failures, validationFailure{decision.message, p.name, b.name, i, b.validationActions})
				observeValidation(d.ctx, p.name, b.name, decision, "audit")
			case admissionregistrationv1.Warn:
				warning.AddWarning(d.ctx, "", "Validation failed for ValidatingAdmissionPolicy '"+p.name+
					"' with binding '"+b.name+"': "+decision.message)
				observeValidation(d.ctx, p.name, b.name, decision, "warn")
			}
		}
	}
	for i := range j.annotations {
		a := &j.annotations[i]
		if a.err == "" {
			collected.add(a.key, a.value)
			continue
		}
		failed := decision{denied: true, erred: true, message: a.err, elapsed: a.elapsed}
		d.violations = append(d.violations, violation{policy: p.name, binding: b, message: a.err})
		observeValidation(d.ctx, p.name, b.name, &failed, "deny")
	}
}

// observeConditions counts the evaluation of match conditions. The labels are upstream's, for both
// kinds of policies.
func observeConditions(ctx context.Context, policy string, operation admission.Operation, took time.Duration,
	verdict expression.Verdict) {
	admissionmetrics.Metrics.ObserveMatchConditionEvaluationTime(ctx, took, policy, "policy", "validate",
		string(operation))
	for range verdict.Errors {
		admissionmetrics.Metrics.ObserveMatchConditionEvalError(ctx, policy, "policy", "validate", string(operation))
	}
}

// checkEnv returns an error if env lacks something that policies need.
func checkEnv(env *plugin.Env) error {
	switch {
	case env.Client == nil:
		return errors.New("needs a client")
	case env.Dynamic == nil:
		return errors.New("needs a dynamic client")
	case env.Informers == nil:
		return errors.New("needs informers")
	case env.Authorizer == nil:
		return errors.New("needs an authorizer")
	case env.RESTMapper == nil:
		return errors.New("needs a REST mapper")
	case env.Done == nil:
		return errors.New("needs to know when the server is done")
	}
	return nil
}
