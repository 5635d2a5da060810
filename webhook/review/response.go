package review

import (
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Response is a webhook's answer.
type Response struct {
	// Allowed is the verdict.
	Allowed bool
	// Status is what the webhook says of a refusal; nil where it says nothing. See Denied.
	Status *metav1.Status
	// Patch changes the object; empty where the webhook wants no change. See DecodePatch.
	Patch []byte
	// PatchType is the kind of Patch. There is only admissionv1.PatchTypeJSONPatch, but a webhook may say anything.
	PatchType admissionv1.PatchType
	// AuditAnnotations are for the request's audit event, their keys without the webhook's name.
	AuditAnnotations map[string]string
	// Warnings are for the client.
	Warnings []string
}

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionv1.AddToScheme(scheme))
	utilruntime.Must(admissionv1beta1.AddToScheme(scheme))
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
}()

// Decode reads the answer to the review that was sent in this version, with this uid, to a mutating or validating
// webhook. The error says what is wrong with it, in the words that follow `failed calling webhook "x": `.
func Decode(body []byte, version string, uid types.UID, mutating bool) (*Response, error) {
	var review *admissionv1.AdmissionReview
	var err error
	if version == admissionv1.SchemeGroupVersion.Version {
		review = &admissionv1.AdmissionReview{}
		err = decodeInto(body, review, admissionv1.SchemeGroupVersion)
	} else {
		older := &admissionv1beta1.AdmissionReview{}
		err = decodeInto(body, older, admissionv1beta1.SchemeGroupVersion)
		review = upgraded(older)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	if version == admissionv1.SchemeGroupVersion.Version {
		err = verify(review, uid, mutating)
	} else if review.Response == nil {
		err = errAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("received invalid webhook response: %w", err)
	}
	r := review.Response
	response := &Response{Allowed: r.Allowed, Status: r.Result, AuditAnnotations: r.AuditAnnotations, Warnings: r.Warnings}
	if mutating && len(r.Patch) > 0 {
		response.Patch, response.PatchType = r.Patch, *r.PatchType
	}
	return response, nil
}

// decodeInto reads an AdmissionReview of one version and no other. One that doesn't say what it is is taken for that.
func decodeInto(body []byte, review runtime.Object, version schema.GroupVersion) error {
	got, _, err := decoder.Decode(body, nil, review)
	if err != nil {
		return err
	}
	if got != review {
		// In the words of the scheme, which knows no such conversion either.
		gvk := got.GetObjectKind().GroupVersionKind()
		return fmt.Errorf("converting (%s.%s) to (%s.AdmissionReview): unknown conversion", gvk.Version, gvk.Kind, version.Version)
	}
	return nil
}

// upgraded is an answer in v1beta1 as one in v1. Who wrote webhooks for v1beta1 was never held to uid, kind and patchType, nor
// kept from sending a patch to nobody.
func upgraded(older *admissionv1beta1.AdmissionReview) *admissionv1.AdmissionReview {
	review := &admissionv1.AdmissionReview{}
	if r := older.Response; r != nil {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			Allowed: r.Allowed, Result: r.Result, Patch: r.Patch, PatchType: &jsonPatch,
			AuditAnnotations: r.AuditAnnotations, Warnings: r.Warnings,
		}
	}
	return review
}

var errAbsent = errors.New("webhook response was absent")

// verify says what in an answer doesn't obey the rules of v1.
func verify(review *admissionv1.AdmissionReview, uid types.UID, mutating bool) error {
	r := review.Response
	if r == nil {
		return errAbsent
	}
	if r.UID != uid {
		return fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	}
	if want, got := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"), review.GroupVersionKind(); got != want {
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

// Denied returns the error for a request that a webhook didn't allow. It has the code, reason and details of the
// webhook's status, which may be nil, and says by whom it was denied. A code that is none of a refusal becomes 400.
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
