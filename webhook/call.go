// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/component-base/tracing"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/timeshare"
	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook/backend"
	"gatehouse.dev/webhook/review"
)

// takenDown returns the error of a call of a webhook that is taken to be down; nil for others.
func (e *engine) takenDown(h *hook) error {
	switch {
	case h.down:
		return plugin.ErrWebhookDown
	case e.calling == plugin.WebhooksDown && !h.local:
		return plugin.ErrBackendDown
	}
	return nil
}

// ask sends a webhook the request and returns its answer. The webhook's failurePolicy applies to
// errors of type *webhookutil.ErrCallingWebhook; any other error refuses the request. Several
// webhooks may be asked concurrently.
func (e *engine) ask(ctx context.Context, h *hook, request *review.Request, a admission.Attributes) (_ *review.Response,
	err error) {
	defer func() {
		// Validating webhooks are asked in goroutines, where a panic would end the process.
		if cause := recover(); cause != nil {
			klog.ErrorS(nil, "Calling a webhook panicked", "webhook", h.name, "panic", fmt.Sprint(cause), "stack",
				string(debug.Stack()))
			err = callError(h, apierrors.NewInternalError(errors.New("panic")), errors.New("calling it panicked"))
		}
	}()
	if a.IsDryRun() && !h.noSideEffects {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.name))
	}
	if down := e.takenDown(h); down != nil {
		return nil, callError(h, apierrors.NewServiceUnavailable("error calling webhook"),
			fmt.Errorf("failed to call webhook: %w", down))
	}
	if h.reviewVersion == "" {
		return nil, callError(h, apierrors.NewBadRequest("error creating admission objects"),
			errors.New("could not create admission objects: webhook does not accept known AdmissionReview versions "+
				"(v1, v1beta1)"))
	}
	client, err := h.getClient()
	if err != nil {
		return nil, callError(h, apierrors.NewInternalError(err), fmt.Errorf("could not get REST client: %w", err))
	}
	uid := uuid.NewUUID()
	ctx, span := e.span(ctx, h, a, uid)
	defer span.End(500 * time.Millisecond)
	ctx, cancel := timeshare.Limit(e.contextFor(ctx, h))
	defer cancel()
	body := request.Review(h.reviewVersion, uid)
	var answer []byte
	e.trackLatency(ctx, func() { answer, err = client.Post(ctx, body, h.timeout) })
	if err != nil {
		// No errors.As: a wrapped StatusError is a cause, and not the webhook's answer.
		status, ok := err.(*apierrors.StatusError)
		if !ok {
			status = apierrors.NewServiceUnavailable("error calling webhook")
		}
		if timeshare.IsUsedUp(ctx) {
			err = fmt.Errorf("%w: its part of the request's time is used up", err)
		}
		return nil, callError(h, status, postError{err})
	}
	span.AddEvent("Request completed")
	response, err := review.Decode(answer, h.reviewVersion, uid, e.mutating)
	if err != nil {
		return nil, callError(h, apierrors.NewServiceUnavailable("error validating webhook response"), err)
	}
	return response, nil
}

// postError is the error of a call without an answer. Of webhooks under Ignore nobody may ever read its text.
type postError struct{ err error }

func (e postError) Error() string { return "failed to call webhook: " + e.err.Error() }

func (e postError) Unwrap() error { return e.err }

// contextFor returns a context for what is done for a webhook. If the webhook can be ignored, timeshare
// limits the time for it. Mutating webhooks follow one another; after the validating ones no others
// are asked.
func (e *engine) contextFor(ctx context.Context, h *hook) context.Context {
	switch {
	case !h.ignoreFailures:
		return ctx
	case e.mutating:
		return timeshare.Dispensable(ctx, timeshare.Sequential)
	default:
		return timeshare.Dispensable(ctx, timeshare.Last)
	}
}

// span starts the span of a call in the request's trace.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go 5149b9a7
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go 40a61add
func (e *engine) span(ctx context.Context, h *hook, a admission.Attributes, uid types.UID) (context.Context,
	*tracing.Span) {
	name := "Call validating webhook"
	if e.mutating {
		name = "Call mutating webhook"
	}
	return tracing.Start(ctx, name,
		attribute.String("configuration", h.configuration),
		attribute.String("webhook", h.name),
		attribute.Stringer("resource", a.GetResource()),
		attribute.String("subresource", a.GetSubresource()),
		attribute.String("operation", string(a.GetOperation())),
		attribute.String("UID", string(uid)))
}

// callError returns the error of a call that failed. Metrics count it under the code of status.
func callError(h *hook, status *apierrors.StatusError, reason error) error {
	return &webhookutil.ErrCallingWebhook{WebhookName: h.name, Reason: reason, Status: status}
}

// isFailedCall reports whether err is that of a call that failed, to which the failurePolicy applies.
func isFailedCall(err error) bool {
	var failure *webhookutil.ErrCallingWebhook
	return errors.As(err, &failure)
}

// relay passes on the audit annotations and warnings of a webhook's answer.
func relay(ctx context.Context, h *hook, a admission.Attributes, response *review.Response) {
	for key, value := range response.AuditAnnotations {
		logAnnotationError(a.AddAnnotation(h.name+"/"+key, value), h, h.name+"/"+key)
	}
	for _, text := range response.Warnings {
		warning.AddWarning(ctx, "", text)
	}
}

// observe adds a call to the metrics. It returns the refusal of the request if the call's error, if
// any, isn't to be ignored. failedOpen reports whether an error is ignored.
func (e *engine) observe(ctx context.Context, h *hook, a admission.Attributes, elapsed time.Duration,
	err error) (refusal error, failedOpen bool) {
	m, operation := admissionmetrics.Metrics, string(a.GetOperation())
	var failure *webhookutil.ErrCallingWebhook
	var denial *webhookutil.ErrWebhookRejection
	switch {
	case err == nil:
		m.ObserveWebhook(ctx, h.name, elapsed, false, a, e.phase, 200)
		return nil, false

	case errors.As(err, &failure):
		// A call that ended because the client went away says nothing about the webhook.
		canceled := errors.Is(failure.Reason, context.Canceled)
		code := int(failure.Status.ErrStatus.Code)
		m.ObserveWebhook(ctx, h.name, elapsed, !h.ignoreFailures, a, e.phase, code)
		switch {
		case h.ignoreFailures && canceled:
			klog.Warningf("Context canceled when calling webhook %v", h.name)
			return nil, false
		case h.ignoreFailures:
			logFailure("failing open", h, failure)
			m.ObserveWebhookFailOpen(ctx, h.name, e.phase)
			return nil, true
		case !canceled:
			m.ObserveWebhookRejection(ctx, h.name, e.phase, operation,
				admissionmetrics.WebhookRejectionCallingWebhookError, code)
		}
		logFailure("failing closed", h, failure)
		return apierrors.NewInternalError(failure), false

	case errors.As(err, &denial):
		code := int(denial.Status.ErrStatus.Code)
		m.ObserveWebhookRejection(ctx, h.name, e.phase, operation, admissionmetrics.WebhookRejectionNoError, code)
		m.ObserveWebhook(ctx, h.name, elapsed, true, a, e.phase, code)
		return denial.Status, false

	default:
		m.ObserveWebhookRejection(ctx, h.name, e.phase, operation,
			admissionmetrics.WebhookRejectionAPIServerInternalError, 0)
		m.ObserveWebhook(ctx, h.name, elapsed, true, a, e.phase, 0)
		return err, false
	}
}

// logFailure logs a call that failed. It doesn't log calls that weren't made: the breaker has logged why.
func logFailure(how string, h *hook, failure *webhookutil.ErrCallingWebhook) {
	var notCalled *backend.NotCalledError
	if !errors.As(failure.Reason, &notCalled) {
		klog.Warningf("Failed calling webhook, %s %v: %v", how, h.name, failure)
	}
}

// denialError returns the error of a request that the webhook denied.
func denialError(h *hook, response *review.Response) error {
	return &webhookutil.ErrWebhookRejection{Status: review.Denied(h.name, response.Status)}
}

// timeoutError returns the refusal of a request whose deadline has passed, or whose client has gone.
func timeoutError() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
