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

// mutations are what a MutatingAdmissionPolicy does. They never change.
type mutations struct {
	mutators []mutator
	// reinvocable is reinvocationPolicy IfNeeded.
	reinvocable bool
}

// Mutating has objects changed by MutatingAdmissionPolicies.
type Mutating struct {
	*engine[*mutations]
	schemas *mutation.Schemas
}

var _ plugin.Mutator = &Mutating{}

// NewMutating builds a Mutating. config is a MutatingAdmissionPolicyConfiguration, or nil. env must
// have what NewValidating wants.
func NewMutating(config io.Reader, env *plugin.Env) (*Mutating, error) {
	if err := check(env); err != nil {
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
	// Upstream's are these, too: what is deleted has no object to change.
	return &Mutating{engine: e, schemas: mutation.NewSchemas(env.Client.Discovery())}, nil
}

func defineMutating(compiler *expression.Compiler, p *admissionregistrationv1.MutatingAdmissionPolicy,
	static bool) *mutatingPolicy {
	s := stated{p.Name, p.Spec.MatchConstraints, p.Spec.FailurePolicy, p.Spec.ParamKind, p.Spec.Variables,
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

// roundsOf is where a request's rounds are in its ReinvocationContext.
const roundsOf = "MutatingAdmissionPolicy"

// Admit evaluates the policies that concern the request, one after the other, each on what those
// before it have made of the object. Which of them do is decided on the object as it came. An error
// of one doesn't keep the others from being evaluated: the refusal names every one.
//
// Source: dispatchInvocations in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go.
func (m *Mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	again := a.GetReinvocationContext()
	first, _ := again.Value(roundsOf).(*rounds)
	if again.IsReinvoke() && !first.Enter(a.GetObject()) {
		return nil
	}
	candidates, err := m.candidates(ctx, a, o)
	if err != nil || len(candidates) == 0 {
		return err
	}
	p := &pass{Mutating: m, request: m.request(a, o)}
	turns, err := p.turns(ctx, candidates)
	if err != nil {
		return err
	}
	for i := range turns {
		if t := &turns[i]; !again.IsReinvoke() || first.Again(t.key()) {
			if err := p.take(ctx, t); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		// What could not be evaluated for that reason says nothing about the policy, which isn't to
		// be skipped for it.
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	if err := p.finish(); err != nil {
		return err
	}
	if !again.IsReinvoke() {
		p.rounds.Leave(a.GetObject())
		again.SetValue(roundsOf, &p.rounds)
	}
	return mutatingRefusal(a, p.failures)
}

// turn is one evaluation of a policy.
type turn struct {
	policy *mutatingPolicy
	invocation
}

// pass is one round of a request.
type pass struct {
	*Mutating
	*request
	rounds   rounds
	failures []violation
	// version is that in which the object is, nil while nobody has looked at it.
	version *version
	object  *mutation.Object
	// replaced says that it is another object by now, changed that it differs by more than
	// defaults.
	replaced, changed bool
}

// turns are the evaluations that the request is to undergo.
func (p *pass) turns(ctx context.Context, candidates []candidate[*mutations]) (turns []turn, err error) {
	for i := range candidates {
		c := &candidates[i]
		fail := func(b *binding, err error) { p.fail(c.definition, b, configured(b, err), "") }
		err := c.concerned(ctx, p.request, fail, func(in *invocation) {
			turns = append(turns, turn{c.definition, *in})
		})
		if err != nil {
			return nil, err
		}
	}
	return turns, nil
}

// fail takes down an error that refuses the request unless the policy ignores it.
func (p *pass) fail(of *mutatingPolicy, b *binding, err error, reason metav1.StatusReason) {
	if !of.ignores() {
		p.failures = append(p.failures, violation{policy: of.name, binding: b, message: err.Error(), reason: reason})
	}
}

// take has one policy evaluated, and reports it. Its error refuses the request, whatever the
// failure policy says.
func (p *pass) take(ctx context.Context, t *turn) error {
	if err := p.show(t.version); err != nil {
		return apierrors.NewInternalError(err)
	}
	if p.calls == nil {
		return p.evaluate(ctx, t, &outcome{})
	}
	var before map[string]any
	if p.object != nil {
		before, _ = p.object.Content() // without it there is no patch to tell of
	}
	start, o := time.Now(), outcome{}
	err := p.evaluate(ctx, t, &o)
	p.reportMutations(t, &o, start, time.Since(start), before)
	return err
}

// outcome is what a policy came to, for who wants to know.
type outcome struct {
	// skipped is the name of the match condition that is false, if one is.
	skipped string
	// failed is the first error, condition whether that is of a match condition.
	failed    error
	condition bool
	// refused says that it refuses the request whatever the failure policy says.
	refused bool
}

func (p *pass) evaluate(ctx context.Context, t *turn, o *outcome) error {
	if t.policy.conditions != nil {
		start := time.Now()
		verdict := t.policy.conditions.MatchParams(ctx, t.conditions, t.params)
		observeConditions(ctx, t.policy.name, p.GetOperation(), time.Since(start), verdict)
		if verdict.Err != nil {
			o.failed, o.condition = verdict.Err, true
			p.fail(t.policy, t.binding, verdict.Err, metav1.StatusReasonInvalid)
			return nil
		}
		if !verdict.Matches {
			o.skipped = verdict.Failed
			return nil
		}
	}
	if p.object != nil {
		for i := range t.policy.does.mutators {
			if err := p.mutate(ctx, t, &t.policy.does.mutators[i], o); err != nil {
				o.refused = true
				return err
			}
		}
	}
	if t.policy.does.reinvocable {
		p.rounds.Add(t.key())
	}
	return nil
}

// mutate has one mutation done. What is wrong with the outcome refuses the request, as upstream,
// whatever the failure policy says.
func (p *pass) mutate(ctx context.Context, t *turn, m *mutator, o *outcome) error {
	start, before := time.Now(), p.object.Object()
	run := t.variables.Run(expression.Inputs{Params: t.params, Namespace: t.namespace, Authorizer: true})
	changed, err := m.mutate(ctx, run, p.object)
	observeMutation(ctx, t.policy.name, t.binding.name, time.Since(start), err)
	p.changed = p.changed || changed
	if p.object.Object() != before {
		p.replaced = true
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

// show has the expressions of a version see the object as it is by now.
func (p *pass) show(v *version) error {
	if p.version == v || p.GetObject() == nil {
		return nil
	}
	object, _ := v.Object() // a version without it is an error before
	if p.replaced {
		object = p.object.Object()
	}
	shown, err := matching.Convert(object, v.Kind, p.Interfaces)
	if err != nil {
		return fmt.Errorf("showing the object as %s: %w", v.Kind, err)
	}
	if !p.replaced && shown == object {
		// It is as the version has it, whose expressions see that already.
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

// finish makes the request's object what the policies have made of it.
func (p *pass) finish() error {
	if !p.replaced {
		return nil
	}
	object, err := matching.Convert(p.object.Object(), p.GetKind(), p.Interfaces)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	matching.Replace(p.GetObject(), object)
	p.ObjectChanged()
	if p.changed {
		p.rounds.Changed()
		p.GetReinvocationContext().SetShouldReinvoke()
	}
	return nil
}
