// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// Response is a webhook's answer.
type Response struct {
	// Allowed is the verdict.
	Allowed bool
	// Status is the webhook's status of a refusal, or nil. See Denied.
	Status *metav1.Status
	// Patch changes the object. It is empty if the webhook wants no change. See DecodePatch.
	Patch []byte
	// PatchType is the kind of Patch. The only valid one is admissionv1.PatchTypeJSONPatch, but it is
	// whatever the webhook wrote.
	PatchType admissionv1.PatchType
	// AuditAnnotations are for the request's audit event. Their keys lack the webhook's name.
	AuditAnnotations map[string]string
	// Warnings are for the client.
	Warnings []string
}

// Decode decodes the answer to the review that was sent in this version, with this uid, to a mutating
// or validating webhook. The text of the error is meant to follow `failed calling webhook "x": `.
func Decode(body []byte, version string, uid types.UID, mutating bool) (*Response, error) {
	var answer answer
	if err := answer.decode(body, version); err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	if err := answer.verify(version, uid, mutating); err != nil {
		return nil, fmt.Errorf("received invalid webhook response: %w", err)
	}
	r := answer.Response
	response := &Response{Allowed: r.Allowed, Status: r.Result, AuditAnnotations: r.AuditAnnotations,
		Warnings: r.Warnings}
	if mutating && len(r.Patch) > 0 {
		response.Patch, response.PatchType = r.Patch, admissionv1.PatchTypeJSONPatch
		if r.PatchType != nil && version == v1 {
			response.PatchType = *r.PatchType
		}
	}
	return response, nil
}

const v1, v1beta1 = "v1", "v1beta1"

// answer is the AdmissionReview of an answer, of either version: their responses have the same fields.
// Some webhooks also send the request back, which is ignored.
type answer struct {
	metav1.TypeMeta `json:",inline"`
	Response        *admissionv1.AdmissionResponse `json:"response"`
}

// decode decodes an AdmissionReview, which must be of the version. If it lacks kind or version, they
// are taken to be right. The errors are those of k8s.io/apimachinery's serializers, which decode
// everything twice.
func (a *answer) decode(body []byte, version string) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, a); err != nil {
		if syntax, _ := kjson.SyntaxErrorOffset(err); syntax {
			return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
		}
		return err
	}
	found, err := schema.ParseGroupVersion(a.APIVersion)
	if err != nil {
		return err
	}
	want := reviewKind(version)
	if found.Version == "" && (found.Group == "" || found.Group == want.Group) {
		found = want.GroupVersion()
	}
	switch got := found.WithKind(cmp.Or(a.Kind, want.Kind)); {
	case got == want:
		return nil
	case got == reviewKind(v1) || got == reviewKind(v1beta1) || got == statusKind:
		return fmt.Errorf("converting (%s.%s) to (%s.AdmissionReview): unknown conversion", got.Version, got.Kind,
			version)
	default:
		return fmt.Errorf("no kind %q is registered for version %q", got.Kind, got.GroupVersion())
	}
}

// statusKind is the only kind besides reviews that upstream's serializer knows. API servers answer with
// it when they refuse a request.
var statusKind = schema.GroupVersionKind{Version: v1, Kind: "Status"}

func reviewKind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: admissionv1.GroupName, Version: version, Kind: "AdmissionReview"}
}

// verify returns an error if an answer breaks a rule. The rules about uid, kind, patchType and patches of
// validating webhooks never applied to v1beta1.
func (a *answer) verify(version string, uid types.UID, mutating bool) error {
	r := a.Response
	if r == nil {
		return errors.New("webhook response was absent")
	}
	if version != v1 {
		return nil
	}
	if r.UID != uid {
		return fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	}
	if want, got := reviewKind(version), a.GroupVersionKind(); got != want {
		return fmt.Errorf("expected webhook response of %v, got %v", want, got)
	}
	switch {
	case !mutating && len(r.Patch) > 0:
		return errors.New("validating webhook may not return response.patch")
	case !mutating && r.PatchType != nil:
		return errors.New("validating webhook may not return response.patchType")
	case len(r.Patch) > 0 && r.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	}
	return nil
}

// maxCode is the largest status code that net/http writes; with a larger one it panics.
const maxCode = 999

// Denied returns the error for a request that a webhook didn't allow. It has the code, reason and
// details of the webhook's status, which may be nil, and names the webhook. A code that isn't that of an
// error becomes 400.
func Denied(webhook string, status *metav1.Status) *apierrors.StatusError {
	var result metav1.Status
	if status != nil {
		result = *status
	}
	if result.Code < http.StatusBadRequest || result.Code > maxCode {
		result.Code = http.StatusBadRequest
	}
	if result.Status == "" || result.Status == metav1.StatusSuccess {
		result.Status = metav1.StatusFailure
	}
	why := " without explanation"
	switch {
	case result.Message != "":
		why = ": " + result.Message
	case result.Reason != "":
		why = ": " + string(result.Reason)
	}
	result.Message = fmt.Sprintf("admission webhook %q denied the request%s", webhook, why)
	return &apierrors.StatusError{ErrStatus: result}
}
