// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"io"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/matching/manifest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook/review"
)

// Validating admits or refuses requests by the webhooks of ValidatingWebhookConfigurations.
type Validating struct{ *engine }

var _ plugin.Validator = &Validating{}

// NewValidating returns a Validating. Its parameters and errors are those of NewMutating.
func NewValidating(config io.Reader, env *plugin.Env) (*Validating, error) {
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	configurations := env.Informers.Admissionregistration().V1().ValidatingWebhookConfigurations()
	e, err := newEngine(config, env, manifest.ValidatingWebhooks, "validatingwebhookconfigurations",
		configurations.Informer(), configurations.Lister().List)
	if err != nil {
		return nil, err
	}
	// The metrics of Kubernetes have both words.
	e.phase, e.exclusion = "validating", "validate"
	return &Validating{e}, nil
}

// judgement is one webhook's part in the validating phase.
type judgement struct {
	*hook
	request  *review.Request
	response *review.Response // nil if there is none
	start    time.Time
	elapsed  time.Duration
	err      error
	refusal  error
	// failedOpen reports whether the webhook failed and is ignored.
	failedOpen bool
}

// Validate calls the webhooks, all at once. If several refuse, the answer is that of the first one, by
// the configuration's name and the position in it.
func (v *Validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	candidates, err := v.candidates(ctx, a, o)
	if err != nil || len(candidates) == 0 {
		return err
	}
	r := v.newRequest(a, o)
	judgements, err := v.selectHooks(ctx, r, candidates)
	if err != nil || len(judgements) == 0 {
		return err
	}
	if ctx.Err() != nil {
		return timeoutError()
	}
	var others sync.WaitGroup
	for i := range judgements[1:] {
		others.Go(func() { v.judge(ctx, a, &judgements[1+i]) })
	}
	v.judge(ctx, a, &judgements[0])
	others.Wait()

	// Report in the order of the webhooks, not of their answers.
	for i := range judgements {
		j := &judgements[i]
		if j.response != nil {
			relay(ctx, j.hook, a, j.response)
		}
		r.report(j.hook, j.start, j.elapsed, j.err, j.failedOpen, j.response, effect{})
		if j.failedOpen {
			annotateFailedOpen(a, validatingFailedOpenAnnotation, 0, i, j.hook)
		}
		if err == nil {
			err = j.refusal
		}
	}
	if err == nil && ctx.Err() != nil {
		// Webhooks may have failed open for that reason. Storage may not notice.
		return timeoutError()
	}
	return err
}

// selectHooks returns the webhooks to call, with the request to send. All use of the request is here, in
// one goroutine.
func (v *Validating) selectHooks(ctx context.Context, r *request, candidates []candidate) ([]judgement, error) {
	var judgements []judgement
	start := time.Now()
	for i := range candidates {
		c := &candidates[i]
		version, err := r.match(ctx, c)
		if err != nil && isFailedCall(err) {
			j := judgement{hook: c.hook, start: start, elapsed: time.Since(start), err: err}
			j.refusal, j.failedOpen = v.observe(ctx, j.hook, r, j.elapsed, err)
			judgements = append(judgements, j)
			start = start.Add(j.elapsed)
			continue
		}
		if err != nil {
			r.report(c.hook, time.Time{}, 0, err, false, nil, effect{})
			return nil, err
		}
		if version == nil {
			continue
		}
		encoded, err := version.getReview()
		if err != nil {
			return nil, version.conversionError(c, err)
		}
		judgements = append(judgements, judgement{hook: c.hook, request: encoded})
	}
	return judgements, nil
}

// judge calls one webhook, unless that has already failed.
func (v *Validating) judge(ctx context.Context, a admission.Attributes, j *judgement) {
	if j.err != nil {
		return
	}
	j.start = time.Now()
	j.response, j.err = v.ask(ctx, j.hook, j.request, a)
	if j.err == nil && !j.response.Allowed {
		j.err = denialError(j.hook, j.response)
	}
	j.elapsed = time.Since(j.start)
	j.refusal, j.failedOpen = v.observe(ctx, j.hook, a, j.elapsed, j.err)
}
