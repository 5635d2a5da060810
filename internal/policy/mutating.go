// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/internal/policy/mutation"
	"gatehouse.dev/plugin"
)

// mutatingPolicy is a MutatingAdmissionPolicy.
type mutatingPolicy = definition[*mutations]

// mutations holds what a MutatingAdmissionPolicy does. It never changes.
type mutations struct {
	mutators []mutator
	// reinvocable reports whether the reinvocationPolicy is IfNeeded.
	reinvocable bool
}

// Mutating changes objects as MutatingAdmissionPolicies say.
type Mutating struct {
	*engine[*mutations]
	schemas *mutation.Schemas
}

var _ plugin.Mutator = &Mutating{}

// NewMutating returns a Mutating. config is a MutatingAdmissionPolicyConfiguration, or nil. env
// must have what NewValidating requires.
func NewMutating(config io.Reader, env *plugin.Env) (*Mutating, error) {
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	dir, err := manifestsDir(config, "MutatingAdmissionPolicyConfiguration")
	if err != nil {
		return nil, err
	}
	api := env.Informers.Admissionregistration().V1()
	policies, bindings := api.MutatingAdmissionPolicies(), api.MutatingAdmissionPolicyBindings()
	e, err := newEngine(env, dir, kind[*admissionregistrationv1.MutatingAdmissionPolicy,
		*admissionregistrationv1.MutatingAdmissionPolicyBinding, *mutations]{
		define: defineMutating, bind: bindMutating,
		policies: policies.Lister().List, bindings: bindings.Lister().List,
		informers: map[string]cache.SharedIndexInformer{"mutatingadmissionpolicies": policies.Informer(),
			"mutatingadmissionpolicybindings": bindings.Informer()},
		manifests: manifest.MutatingPolicies,
	})
	if err != nil {
		return nil, err
	}
	return &Mutating{engine: e, schemas: mutation.NewSchemas(env.Client.Discovery())}, nil
}

func defineMutating(compiler *expression.Compiler, p *admissionregistrationv1.MutatingAdmissionPolicy,
	static bool) *mutatingPolicy {
	s := policySpec{p.Name, p.Spec.MatchConstraints, p.Spec.FailurePolicy, p.Spec.ParamKind, p.Spec.Variables,
		p.Spec.MatchConditions}
	return define(compiler, s, static, func(composition *expression.Composition, _ *mutatingPolicy) *mutations {
		return &mutations{
			mutators:    newMutators(composition, p.Spec.Mutations),
			reinvocable: p.Spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy,
		}
	})
}

func bindMutating(b *admissionregistrationv1.MutatingAdmissionPolicyBinding, static bool) *binding {
	return newBinding(b.Name, b.Spec.PolicyName, static, b.Spec.MatchResources, b.Spec.ParamRef, nil)
}

// roundsKey is the key of a request's rounds in its ReinvocationContext.
const roundsKey = "MutatingAdmissionPolicy"

// Admit evaluates the policies that match the request, one after the other. Each policy sees the
// object as the policies before it left it, but whether a policy matches is decided on the object
// as it arrived. An error of one policy doesn't stop the others: the refusal names every error.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go#dispatchInvocations 95636ca5
func (m *Mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	reinvocation := a.GetReinvocationContext()
	previous, _ := reinvocation.Value(roundsKey).(*rounds)
	if reinvocation.IsReinvoke() && !previous.BeginSecond(a.GetObject()) {
		return nil
	}
	candidates, err := m.candidates(ctx, a, o)
	if err != nil || len(candidates) == 0 {
		return err
	}
	p := &pass{Mutating: m, request: m.request(a, o)}
	turns, err := p.listTurns(ctx, candidates)
	if err != nil {
		return err
	}
	for i := range turns {
		if t := &turns[i]; !reinvocation.IsReinvoke() || previous.IsPending(t.key()) {
			if err := p.takeTurn(ctx, t); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		// An evaluation that ran out of time says nothing about the policy, so the policy's
		// failurePolicy doesn't apply.
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	if err := p.finish(); err != nil {
		return err
	}
	if !reinvocation.IsReinvoke() {
		p.rounds.EndFirst(a.GetObject())
		reinvocation.SetValue(roundsKey, &p.rounds)
	}
	return mutatingRefusal(a, p.failures)
}

// turn is one evaluation of a policy: for one binding and one params.
type turn struct {
	policy *mutatingPolicy
	invocation
}

// pass is the state of one round of a request.
type pass struct {
	*Mutating
	*request
	rounds   rounds
	failures []violation
	// version is the version that the object is in. It is nil until the first turn.
	version *version
	object  *mutation.Object
	// isReplaced reports whether object is no longer the request's own, isChanged whether the two
	// differ by more than defaults.
	isReplaced, isChanged bool
}

// listTurns returns the evaluations that the request needs.
func (p *pass) listTurns(ctx context.Context, candidates []candidate[*mutations]) (turns []turn, err error) {
	for i := range candidates {
		c := &candidates[i]
		fail := func(b *binding, err error) { p.fail(c.definition, b, configError(b, err), "") }
		err := c.visitInvocations(ctx, p.request, fail, func(in *invocation) {
			turns = append(turns, turn{c.definition, *in})
		})
		if err != nil {
			return nil, err
		}
	}
	return turns, nil
}

// fail records an error that refuses the request, unless the policy ignores failures.
func (p *pass) fail(policy *mutatingPolicy, b *binding, err error, reason metav1.StatusReason) {
	if !policy.ignoresFailures() {
		p.failures = append(p.failures, violation{policy: policy.name, binding: b, message: err.Error(), reason: reason})
	}
}

// takeTurn evaluates one policy and reports the result. An error refuses the request, whatever the
// failurePolicy says.
func (p *pass) takeTurn(ctx context.Context, t *turn) error {
	if err := p.switchVersion(t.version); err != nil {
		return apierrors.NewInternalError(err)
	}
	if p.calls == nil {
		return p.evaluate(ctx, t, &outcome{})
	}
	var before runtime.Object
	if p.object != nil {
		before = p.object.Object()
	}
	start, o := time.Now(), outcome{}
	err := p.evaluate(ctx, t, &o)
	p.reportMutations(t, &o, start, time.Since(start), before)
	return err
}

// outcome is the result of a turn, for the report.
type outcome struct {
	// skipped is the name of the match condition that is false, if one is.
	skipped string
	// failed is the first error. inCondition reports whether it is the error of a match condition.
	failed      error
	inCondition bool
	// isChanged reports whether the object was changed.
	isChanged bool
	// mustRefuse reports whether failed refuses the request whatever the failurePolicy says.
	mustRefuse bool
}

func (p *pass) evaluate(ctx context.Context, t *turn, o *outcome) error {
	if t.policy.conditions != nil {
		start := time.Now()
		verdict := t.policy.conditions.MatchParams(ctx, t.conditions, t.params)
		observeConditions(ctx, t.policy.name, p.GetOperation(), time.Since(start), verdict)
		if verdict.Err != nil {
			o.failed, o.inCondition = verdict.Err, true
			p.fail(t.policy, t.binding, verdict.Err, metav1.StatusReasonInvalid)
			return nil
		}
		if !verdict.Matches {
			o.skipped = verdict.Failed
			return nil
		}
	}
	if p.object != nil {
		for i := range t.policy.action.mutators {
			if err := p.mutate(ctx, t, &t.policy.action.mutators[i], o); err != nil {
				o.mustRefuse = true
				return err
			}
		}
	}
	if t.policy.action.reinvocable {
		p.rounds.AddCalled(t.key())
	}
	return nil
}

// mutate applies one mutation. If the mutated object isn't valid, that refuses the request,
// whatever the failurePolicy says, as upstream.
func (p *pass) mutate(ctx context.Context, t *turn, m *mutator, o *outcome) error {
	start, before := time.Now(), p.object.Object()
	run := t.variables.Run(expression.Inputs{Params: t.params, Namespace: t.namespace, Authorizer: true})
	changed, err := m.mutate(ctx, run, p.object)
	observeMutation(ctx, t.policy.name, t.binding.name, time.Since(start), err)
	o.isChanged = o.isChanged || changed
	p.isChanged = p.isChanged || changed
	if p.object.Object() != before {
		p.isReplaced = true
		t.setObject(p.object)
	}
	if err == nil {
		return nil
	}
	named := fmt.Errorf("%w (%s)", err, m.field)
	if o.failed == nil {
		o.failed = named
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		refused := &apierrors.StatusError{ErrStatus: *status.ErrStatus.DeepCopy()}
		refused.ErrStatus.Message = mutatingMessage(&violation{t.policy.name, t.binding, named.Error(), ""})
		return refused
	}
	p.fail(t.policy, t.binding, named, metav1.StatusReasonInvalid)
	return nil
}

// switchVersion makes the object, as the policies so far left it, visible to the expressions of a
// version.
func (p *pass) switchVersion(v *version) error {
	if p.version == v || p.GetObject() == nil {
		return nil
	}
	object, _ := v.Object() // its error has already been returned
	if p.isReplaced {
		object = p.object.Object()
	}
	shown, err := matching.ConvertOver(p.GetObject(), object, v.Kind, p.Interfaces)
	if err != nil {
		return fmt.Errorf("converting the object to %s: %w", v.Kind, err)
	}
	if !p.isReplaced && shown == object {
		// The expressions of the version see this object already.
		p.version, p.object = v, mutation.NewObject(shown, v.Kind, v.Content, p.Interfaces, p.schemas)
		return nil
	}
	p.version, p.object = v, mutation.NewObject(shown, v.Kind, nil, p.Interfaces, p.schemas)
	v.setObject(p.object)
	return nil
}

func (v *version) setObject(o *mutation.Object) {
	v.variables.SetObject(o.Content)
	if v.conditions != v.variables {
		v.conditions.SetObject(o.Content)
	}
}

// finish writes the mutated object into the request's.
func (p *pass) finish() error {
	if !p.isReplaced {
		return nil
	}
	object, err := matching.ConvertOver(p.GetObject(), p.object.Object(), p.GetKind(), p.Interfaces)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	matching.Replace(p.GetObject(), object)
	p.ObjectChanged()
	if p.isChanged {
		p.rounds.ObjectChanged()
		p.GetReinvocationContext().SetShouldReinvoke()
	}
	return nil
}
