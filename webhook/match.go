package webhook

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/klog/v2"
)

// match tells whether a webhook with a rule for the request is to be called. An error refuses the
// request.
//
// Source: ShouldCallHook in k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go.
func (r *request) match(ctx context.Context, c *candidate) (bool, error) {
	// A webhook that isn't concerned must not fail the request, not even when nobody knows the
	// namespace.
	inNamespace, namespaceErr := r.namespaceSelected(ctx, c)
	if namespaceErr == nil && !inNamespace {
		return false, nil
	}
	selected, objectErr := r.objectSelected(c.objectSelector)
	if objectErr == nil && !selected {
		return false, nil
	}
	if namespaceErr != nil {
		return false, namespaceErr
	}
	if objectErr != nil {
		return false, objectErr
	}
	if c.kind.Empty() && c.converted {
		return false, apierrors.NewInternalError(fmt.Errorf("webhook %q: unable to convert to %v: unknown kind", c.name,
			c.resource))
	}
	if c.conditions == nil {
		return true, nil
	}
	return r.conditionsHold(ctx, c)
}

// namespaceSelected tells whether the webhook's namespaceSelector selects the request's namespace.
// What has none is selected always, but a Namespace is selected by its own labels.
func (r *request) namespaceSelected(ctx context.Context, c *candidate) (bool, error) {
	if r.GetNamespace() == "" && r.GetResource().Resource != namespaces.Resource {
		return true, nil
	}
	if c.namespaceSelector.err != nil {
		return false, apierrors.NewInternalError(c.namespaceSelector.err)
	}
	if c.namespaceSelector.Empty() {
		return true, nil
	}
	namespace, err := r.namespaceLabels(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, err // a 404 that names it
	case err != nil:
		return false, apierrors.NewInternalError(fmt.Errorf("webhook %q: namespaceSelector: %w", c.name, err))
	}
	return c.namespaceSelector.Matches(namespace), nil
}

// objectSelected tells whether the selector, where there is one, selects the object or the old
// object. One that is missing or can't have labels is not selected.
func (r *request) objectSelected(s selector) (bool, error) {
	if s.err != nil {
		return false, apierrors.NewInternalError(s.err)
	}
	return s.Empty() || selects(s, r.GetObject()) || selects(s, r.GetOldObject()), nil
}

func selects(s selector, object runtime.Object) bool {
	if object == nil {
		return false
	}
	accessor, err := meta.Accessor(object)
	return err == nil && s.Matches(labels.Set(accessor.GetLabels()))
}

// conditionsHold evaluates the webhook's match conditions. Where they can't be, failurePolicy
// Ignore skips the webhook.
//
// Source: Match in k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go.
func (r *request) conditionsHold(ctx context.Context, c *candidate) (bool, error) {
	variables, err := r.version(c).getVariables()
	if err != nil {
		return false, r.conversionError(c, err)
	}
	operation := string(r.GetOperation())
	start := time.Now()
	verdict := c.conditions.Match(ctx, variables)
	admissionmetrics.Metrics.ObserveMatchConditionEvaluationTime(ctx, time.Since(start), c.name, "webhook", r.phase,
		operation)
	if verdict.Err != nil && ctx.Err() != nil {
		// That says nothing about the webhook, which isn't to be skipped for it.
		return false, outOfTime()
	}
	for range verdict.Errors {
		admissionmetrics.Metrics.ObserveMatchConditionEvalError(ctx, c.name, "webhook", r.phase, operation)
	}
	if verdict.Err != nil && !c.ignoreFailures {
		klog.Warningf("Failed evaluating match conditions, failing closed %v: %v", c.name, verdict.Err)
		return false, apierrors.NewForbidden(r.GetResource().GroupResource(), r.GetName(),
			fmt.Errorf("webhook %q: %w", c.name, verdict.Err))
	}
	if !verdict.Matches {
		admissionmetrics.Metrics.ObserveMatchConditionExclusion(ctx, c.name, "webhook", r.exclusion, operation)
	}
	return verdict.Matches, nil
}

// conversionError is the error for a request that can't be shown to a webhook in the version it
// wants.
func (r *request) conversionError(c *candidate, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("webhook %q: unable to convert to %v: %w", c.name, r.version(c).kind,
		err))
}
