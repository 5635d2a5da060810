// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"io"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook/review"
)

// Mutating changes requests by the webhooks of MutatingWebhookConfigurations.
type Mutating struct{ *engine }

var _ plugin.Mutator = &Mutating{}

// NewMutating returns a Mutating with the plugin's configuration (see LoadConfig), nil for none. It
// fails if the configuration is wrong, or if env has no client, informers, authorizer or Done.
func NewMutating(config io.Reader, env *plugin.Env) (*Mutating, error) {
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	configurations := env.Informers.Admissionregistration().V1().MutatingWebhookConfigurations()
	e, err := newEngine(config, env, manifest.MutatingWebhooks, "mutatingwebhookconfigurations",
		configurations.Informer(), configurations.Lister().List)
	if err != nil {
		return nil, err
	}
	e.mutating, e.phase, e.exclusion = true, "admit", "admit"
	return &Mutating{e}, nil
}

// roundsKey is the key of a request's rounds in its ReinvocationContext.
const roundsKey = "webhooks"

// Admit calls the webhooks, one after the other, and applies their patches to a's object.
func (m *Mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if again := a.GetReinvocationContext(); again.IsReinvoke() {
		// A webhook that wasn't called in the first round isn't called in the second.
		r, ok := again.Value(roundsKey).(*rounds)
		if !ok || !r.BeginSecond(a.GetObject()) {
			return nil
		}
		return m.round(ctx, 1, r, a, o)
	}
	candidates, err := m.candidates(ctx, a, o)
	if err != nil || len(candidates) == 0 {
		return err
	}
	r := &rounds{candidates: candidates}
	if err := m.round(ctx, 0, r, a, o); err != nil {
		return err
	}
	r.EndFirst(a.GetObject())
	a.GetReinvocationContext().SetValue(roundsKey, r)
	return nil
}

func (m *Mutating) round(ctx context.Context, round int, r *rounds, a admission.Attributes,
	o admission.ObjectInterfaces) error {
	request := m.newRequest(a, o)
	start := time.Now() // and after each call: most webhooks don't match, and telling the time costs
	for i := range r.candidates {
		c := &r.candidates[i]
		if round > 0 && !r.IsPending(c.uid) {
			continue
		}
		v, err := request.match(ctx, c)
		if err != nil && !isFailedCall(err) {
			request.report(c.hook, time.Time{}, 0, err, false, nil, effect{})
			return err
		}
		var response *review.Response
		var result effect
		switch {
		case err != nil:
		case v == nil:
			continue
		default:
			start = time.Now()
			response, result, err = m.call(ctx, v, c, round)
		}
		elapsed := time.Since(start)
		refusal, failedOpen := m.observe(ctx, c.hook, a, elapsed, err)
		request.report(c.hook, start, elapsed, err, failedOpen, response, result)
		if refusal != nil {
			return refusal
		}
		if failedOpen {
			annotateFailedOpen(a, mutatingFailedOpenAnnotation, round, c.index, c.hook)
		}
		if result.changed {
			r.ObjectChanged()
			a.GetReinvocationContext().SetShouldReinvoke()
		}
		if c.reinvocable {
			r.AddCalled(c.uid)
		}
		if err != nil && ctx.Err() != nil {
			// The webhook failed open, but the request has ended.
			return timeoutError()
		}
		start = start.Add(elapsed)
	}
	return nil
}

// effect is the result of a webhook's patch.
type effect struct {
	// changed reports whether the object is another one than before.
	changed bool
	// changes holds what changed, for the report.
	changes *jsondiff.Changes
	// dropped are the fields that the patch set and the object's kind doesn't have.
	dropped []string
}

// call calls one webhook and applies its patch. It returns the answer, nil if there is none, and the
// patch's effect.
func (m *Mutating) call(ctx context.Context, v *version, c *candidate, round int) (response *review.Response,
	result effect, err error) {
	r := v.of
	defer func() { annotateMutation(ctx, r, round, c.index, c.hook, result.changed) }()
	encoded, err := v.getReview()
	if err != nil {
		return nil, result, v.conversionError(c, err)
	}
	if response, err = m.ask(ctx, c.hook, encoded, r); err != nil {
		return nil, result, err
	}
	relay(ctx, c.hook, r, response)
	if !response.Allowed {
		return response, result, denialError(c.hook, response)
	}
	if len(response.Patch) == 0 {
		return response, result, nil
	}
	patch, err := review.DecodePatch(response.Patch)
	if err != nil {
		return response, result, callError(c.hook,
			apierrors.NewServiceUnavailable("error decoding patch in webhook response"), err)
	}
	if len(patch) == 0 {
		return response, result, nil
	}
	if response.PatchType != admissionv1.PatchTypeJSONPatch {
		return response, result, callError(c.hook, review.Denied(c.name, response.Status),
			fmt.Errorf("unsupported patch type %q", response.PatchType))
	}
	if result, err = r.patch(v, patch); err != nil {
		return response, effect{}, apierrors.NewInternalError(fmt.Errorf("admission webhook %q %w", c.name, err))
	}
	annotatePatch(ctx, r, round, c.index, c.hook, patch)
	return response, result, nil
}
