// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/registration"
	"gatehouse.dev/webhook/server"
)

// recorded returns decide, which answers a call, with a record of its requests.
//
// A request may come as several reviews, and nothing links them. It is recorded once, by the first
// call that is about it: those of the validating phase come first, since they show the verdict. A
// review that refuses is recorded in any case: other calls may never be made then.
func (w *worker) recorded(decide server.FallibleHandler, call *registration.Call) server.FallibleHandler {
	first := callsBefore(call, registration.Calls(w.registration))
	return func(ctx context.Context, r *admissionv1.AdmissionRequest) (server.Response, error) {
		details := recorded.Details{Time: metav1.NowMicro(), Outcome: recorded.Admitted,
			Validating: call.Phase == plugin.Validating}
		response, err := decide(ctx, r)
		answer := &admissionv1.AdmissionResponse{UID: r.UID, Allowed: response.Allowed}
		switch {
		case err != nil:
			details.Outcome, answer.Allowed = recorded.Failed, false
			answer.Result = &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
		case !response.Allowed:
			details.Outcome = recorded.Refused
			answer.Result = &metav1.Status{Code: response.Result.Code, Reason: response.Result.Reason,
				Message: messageOf(response.Result.Message, r)}
		case slices.ContainsFunc(first, func(c registration.Call) bool { return isAbout(&c, r) }):
			return response, nil
		}
		w.record.Add(r, answer, details)
		return response, err
	}
}

// callsBefore returns the calls that record a request before call does.
func callsBefore(call *registration.Call, all []registration.Call) []registration.Call {
	var before []registration.Call
	for _, phase := range []plugin.Phase{plugin.Validating, plugin.Mutating} {
		for _, c := range all {
			switch {
			case c.Phase != phase:
			case c.Path == call.Path:
				return before
			default:
				before = append(before, c)
			}
		}
	}
	return before
}

// isAbout reports whether API servers make the call for a request.
func isAbout(call *registration.Call, r *admissionv1.AdmissionRequest) bool {
	asked := plugin.Resource{Group: r.Resource.Group, Resource: r.Resource.Resource, Subresource: r.SubResource}
	return slices.ContainsFunc(call.Plugins, func(p plugin.Descriptor) bool {
		return (len(p.Operations) == 0 || slices.Contains(p.Operations, admission.Operation(r.Operation))) &&
			(len(p.Resources) == 0 || slices.Contains(p.Resources, asked))
	})
}

// messageOf returns a refusal's message without values of Secrets.
func messageOf(message string, r *admissionv1.AdmissionRequest) string {
	return decision.PluginMessage(message, &v1alpha1.Request{Group: r.Resource.Group, Version: r.Resource.Version,
		Resource: r.Resource.Resource, Subresource: r.SubResource, Namespace: r.Namespace, Name: r.Name}, nil)
}
