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

// Validating has requests judged by the webhooks of ValidatingWebhookConfigurations.
type Validating struct{ *engine }

var _ plugin.Validator = &Validating{}

// NewValidating builds it, as NewMutating builds a Mutating.
func NewValidating(config io.Reader, env *plugin.Env) (*Validating, error) {
	if err := check(env); err != nil {
		return nil, err
	}
	configurations := env.Informers.Admissionregistration().V1().ValidatingWebhookConfigurations()
	e, err := newEngine(config, env, manifest.ValidatingWebhooks, "validatingwebhookconfigurations",
		configurations.Informer(), configurations.Lister().List)
	if err != nil {
		return nil, err
	}
	// The metrics of Kubernetes have it both ways.
	e.phase, e.exclusion = "validating", "validate"
	return &Validating{e}, nil
}

// judgement is one webhook's part in the validating phase.
type judgement struct {
	*hook
	request  *review.Request
	response *review.Response // nil where there is none
	start    time.Time
	elapsed  time.Duration
	err      error
	refusal  error
	// failedOpen says that the webhook failed and is ignored.
	failedOpen bool
}

// Validate calls the webhooks, all at once. Where several refuse, the first by configuration's name
// and place in it is the answer.
func (v *Validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	candidates, err := v.candidates(ctx, a, o)
	if err != nil || len(candidates) == 0 {
		return err
	}
	r := v.newRequest(a, o)
	judgements, err := v.summon(ctx, r, candidates)
	if err != nil || len(judgements) == 0 {
		return err
	}
	if ctx.Err() != nil {
		return outOfTime()
	}
	var others sync.WaitGroup
	for i := range judgements[1:] {
		others.Go(func() { v.judge(ctx, a, &judgements[1+i]) })
	}
	v.judge(ctx, a, &judgements[0])
	others.Wait()

	// What there is to say is said in order, not as the answers came.
	for i := range judgements {
		j := &judgements[i]
		if j.response != nil {
			pass(ctx, j.hook, a, j.response)
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
		// Webhooks that failed open may have failed for that reason. Storage can't be relied on to
		// notice.
		return outOfTime()
	}
	return err
}

// summon returns the webhooks that are to be called, with what they are sent. All that depends on
// the request is done here, in one goroutine.
func (v *Validating) summon(ctx context.Context, r *request, candidates []candidate) ([]judgement, error) {
	var judgements []judgement
	for i := range candidates {
		c := &candidates[i]
		version, err := r.match(ctx, c)
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

// judge calls one webhook.
func (v *Validating) judge(ctx context.Context, a admission.Attributes, j *judgement) {
	j.start = time.Now()
	j.response, j.err = v.ask(ctx, j.hook, j.request, a)
	if j.err == nil && !j.response.Allowed {
		j.err = denied(j.hook, j.response)
	}
	j.elapsed = time.Since(j.start)
	j.refusal, j.failedOpen = v.observe(ctx, j.hook, a, j.elapsed, j.err)
}
