package webhook

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	"gatehouse.dev/chain"
	"gatehouse.dev/expression"
)

// report tells the chain's observers of one call: its error, whether that is ignored, and the patch
// that was applied, nil for none.
func (r *request) report(h *hook, elapsed time.Duration, err error, ignored bool, patch []byte) {
	if r.calls == nil {
		return
	}
	call := chain.Call{Kind: chain.Webhook, Name: h.name, Configuration: h.configuration, Verdict: chain.Admitted,
		Ignored: ignored, Duration: elapsed, Patch: patch}
	if err != nil {
		call.Verdict, call.Why = verdictOf(err), err.Error()
	}
	r.calls.Add(call)
}

// verdictOf tells a no, and what the client did wrong, from what went wrong.
func verdictOf(err error) chain.Verdict {
	var denial *webhookutil.ErrWebhookRejection
	var status apierrors.APIStatus
	if errors.As(err, &denial) || errors.As(err, &status) && status.Status().Code < 500 {
		return chain.Refused
	}
	return chain.Failed
}

// reportSkipped tells them of a webhook that has a rule for the request, but isn't called.
func (r *request) reportSkipped(c *candidate, why string) {
	if r.calls != nil {
		r.calls.Add(chain.Call{Kind: chain.Webhook, Name: c.name, Configuration: c.configuration,
			Verdict: chain.Skipped, Why: why})
	}
}

// reportConditions tells them of a webhook that its match conditions keep from being called.
func (r *request) reportConditions(c *candidate, verdict expression.Verdict) {
	switch {
	case r.calls == nil:
	case verdict.Err != nil:
		r.calls.Add(chain.Call{Kind: chain.Webhook, Name: c.name, Configuration: c.configuration,
			Verdict: chain.Failed, Ignored: true, Why: verdict.Err.Error()})
	default:
		r.reportSkipped(c, fmt.Sprintf("match condition %q is false", verdict.Failed))
	}
}
