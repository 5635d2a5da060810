// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/klog/v2"
)

// The keys of the annotations that the phases add to a request's audit event, besides those that
// webhooks ask for. A key contains the round (1 in the re-run of the mutating phase) and an index: a
// mutating webhook's position among all that are configured, a validating one's among those that were
// called.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go 5149b9a7
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go 40a61add
const (
	mutationAnnotation             = "mutation.webhook.admission.k8s.io/round_%d_index_%d"
	patchAnnotation                = "patch.webhook.admission.k8s.io/round_%d_index_%d"
	mutatingFailedOpenAnnotation   = "failed-open.mutation.webhook.admission.k8s.io/round_%d_index_%d"
	validatingFailedOpenAnnotation = "failed-open.validating.webhook.admission.k8s.io/round_%d_index_%d"
)

// mutation is the value of mutationAnnotation and, with Mutated left out, of patchAnnotation.
type mutation struct {
	Configuration string                `json:"configuration"`
	Webhook       string                `json:"webhook"`
	Mutated       *bool                 `json:"mutated,omitempty"`
	Patch         jsonpatch.Patch       `json:"patch,omitempty"`
	PatchType     admissionv1.PatchType `json:"patchType,omitempty"`
}

func annotateFailedOpen(a admission.Attributes, format string, round, index int, h *hook) {
	key := fmt.Sprintf(format, round, index)
	logAnnotationError(a.AddAnnotation(key, h.name), h, key)
}

func annotateMutation(ctx context.Context, a admission.Attributes, round, index int, h *hook, mutated bool) {
	if !isAudited(ctx, auditinternal.LevelMetadata) {
		return
	}
	key := fmt.Sprintf(mutationAnnotation, round, index)
	value, err := json.Marshal(mutation{Configuration: h.configuration, Webhook: h.name, Mutated: &mutated})
	if err == nil {
		err = a.AddAnnotation(key, string(value))
	}
	logAnnotationError(err, h, key)
}

// annotatePatch adds the patch to the audit event if the policy keeps the request's body: the patch
// shows a part of it.
func annotatePatch(ctx context.Context, a admission.Attributes, round, index int, h *hook, patch jsonpatch.Patch) {
	if !isAudited(ctx, auditinternal.LevelRequest) {
		return
	}
	key := fmt.Sprintf(patchAnnotation, round, index)
	value, err := json.Marshal(mutation{Configuration: h.configuration, Webhook: h.name, Patch: patch,
		PatchType: admissionv1.PatchTypeJSONPatch})
	if err == nil {
		err = a.AddAnnotationWithLevel(key, string(value), auditinternal.LevelRequest)
	}
	logAnnotationError(err, h, key)
}

// isAudited reports whether the request's audit event keeps annotations of a level. If not, they
// aren't made: that takes longer than to apply a short patch.
func isAudited(ctx context.Context, level auditinternal.Level) bool {
	event := audit.AuditContextFrom(ctx)
	return event.Enabled() && event.GetEventLevel().GreaterOrEqual(level)
}

// logAnnotationError logs that an annotation could not be set, if err isn't nil. It logs the key, but
// not the value, which may be confidential.
func logAnnotationError(err error, h *hook, key string) {
	if err != nil {
		klog.Warningf("Failed to set admission audit annotation %s for webhook %s: %v", key, h.name, err)
	}
}
