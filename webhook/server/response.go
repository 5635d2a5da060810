// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Response is a Handler's answer: an AdmissionResponse. A handler may set every field except UID,
// which always becomes the request's.
type Response admissionv1.AdmissionResponse

// Allowed allows the request as it is.
func Allowed() Response { return Response{Allowed: true} }

// Denied refuses the request. The client gets 403 Forbidden and reads: admission webhook "…" denied
// the request: <message>.
func Denied(message string) Response {
	return refusal(metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message})
}

// Errored refuses the request because of an error. If it is an API error
// (k8s.io/apimachinery/pkg/api/errors), wrapped or not, the client gets its code and reason, otherwise
// 500 InternalError. It is an answer, so the webhook's failurePolicy doesn't apply.
func Errored(err error) Response {
	status := metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: err.Error()}
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		from := api.Status()
		status.Code, status.Reason, status.Details = from.Code, from.Reason, from.Details
	}
	return refusal(status)
}

func refusal(status metav1.Status) Response {
	status.Status = metav1.StatusFailure
	return Response{Result: &status}
}

// WithWarnings returns the response with warnings for the client, who sees them whether the request is
// allowed or not. If the warnings of a request have more than 4096 characters together, API servers
// cut each after 256 and drop those that are still too much.
func (r Response) WithWarnings(warnings ...string) Response {
	r.Warnings = slices.Concat(r.Warnings, warnings)
	return r
}

// WithAuditAnnotation returns the response with an annotation for the request's audit event. The key is
// a name without a prefix: the API server puts the webhook's name and a slash before it.
func (r Response) WithAuditAnnotation(key, value string) Response {
	annotations := make(map[string]string, len(r.AuditAnnotations)+1)
	maps.Copy(annotations, r.AuditAnnotations)
	annotations[key] = value
	r.AuditAnnotations = annotations
	return r
}
