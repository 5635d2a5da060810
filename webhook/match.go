// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/matching"
	"gatehouse.dev/plugin"
)

// match returns the request in the version to send to a webhook that has a rule for it, or nil if the
// webhook isn't to be called. An error refuses the request, unless it is a failed call: the webhook's
// namespaceSelector needs a namespace that can't be read, and its failures are ignored.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go#ShouldCallHook e65ac040
func (r *request) match(ctx context.Context, c *candidate) (*version, error) {
	matchCtx := ctx
	if c.ignoreFailures {
		if r.dispensable == nil {
			r.dispensable = r.contextFor(ctx, c.hook)
		}
		matchCtx = r.dispensable
	}
	match, mismatch, err := r.Match(matchCtx, c.match)
	if err != nil {
		return nil, matchError(ctx, c, err)
	}
	if mismatch != matching.Matches {
		r.reportSkipped(c, string(mismatch))
		return nil, nil
	}
	v := r.version(match)
	if c.conditions != nil {
		if matches, err := r.conditionsHold(ctx, c, v); !matches {
			return nil, err
		}
	}
	switch {
	case c.local:
	case r.calling == plugin.WebhooksSkipped:
		r.reportSkipped(c, plugin.WouldBeAsked+", but no webhooks are")
		return nil, nil
	case r.calling == plugin.WebhooksAsked && !c.noSideEffects:
		r.reportSkipped(c, plugin.WouldBeAsked+", but has side effects")
		return nil, nil
	}
	return v, nil
}

// matchError returns the error for a webhook whose selectors can't be evaluated.
func matchError(ctx context.Context, c *candidate, err error) error {
	refusal := plugin.Unanswered(err, nil)
	switch {
	case apierrors.IsNotFound(err):
		return err // a 404 that names the namespace
	case refusal == nil:
		return apierrors.NewInternalError(fmt.Errorf("webhook %q: %w", c.name, err))
	case c.ignoreFailures && ctx.Err() == nil:
		return callError(c.hook, apierrors.NewServiceUnavailable("error matching webhook"), err)
	}
	return refusal
}

// conditionsHold reports whether the webhook's match conditions hold. If they can't be evaluated and
// failurePolicy is Ignore, they don't.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go#Match 9e8dd240
func (r *request) conditionsHold(ctx context.Context, c *candidate, v *version) (bool, error) {
	variables, err := v.getVariables()
	if err != nil {
		return false, v.conversionError(c, err)
	}
	operation := string(r.GetOperation())
	start := time.Now()
	verdict := c.conditions.Match(ctx, variables)
	admissionmetrics.Metrics.ObserveMatchConditionEvaluationTime(ctx, time.Since(start), c.name, "webhook", r.phase,
		operation)
	if verdict.Err != nil && ctx.Err() != nil {
		// The request has ended. That is no failure of the conditions, for which failurePolicy could
		// skip the webhook.
		return false, timeoutError()
	}
	for range verdict.Errors {
		admissionmetrics.Metrics.ObserveMatchConditionEvalError(ctx, c.name, "webhook", r.phase, operation)
	}
	if verdict.Err != nil && !c.ignoreFailures {
		klog.Warningf("Failed evaluating match conditions, failing closed %v: %v", c.name, verdict.Err)
		return false, conditionError{apierrors.NewForbidden(r.GetResource().GroupResource(), r.GetName(),
			fmt.Errorf("webhook %q: %w", c.name, verdict.Err))}
	}
	if !verdict.Matches {
		admissionmetrics.Metrics.ObserveMatchConditionExclusion(ctx, c.name, "webhook", r.exclusion, operation)
		r.reportConditions(c, verdict)
	}
	return verdict.Matches, nil
}

// conditionError is the refusal of a request for which a webhook's match conditions can't be
// evaluated.
type conditionError struct{ *apierrors.StatusError }

// Unwrap returns the refusal as the client gets it.
func (e conditionError) Unwrap() error { return e.StatusError }

// conversionError returns the error for a request that can't be converted to a webhook's version.
func (v *version) conversionError(c *candidate, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("webhook %q: unable to convert to %v: %w", c.name, v.Kind, err))
}
