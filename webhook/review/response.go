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
	// Status is what the webhook says of a refusal; nil where it says nothing. See Denied.
	Status *metav1.Status
	// Patch changes the object; empty where the webhook wants no change. See DecodePatch.
	Patch []byte
	// PatchType is the kind of Patch. There is only admissionv1.PatchTypeJSONPatch, but a webhook
	// may say anything.
	PatchType admissionv1.PatchType
	// AuditAnnotations are for the request's audit event, their keys without the webhook's name.
	AuditAnnotations map[string]string
	// Warnings are for the client.
	Warnings []string
}

// Decode reads the answer to the review that was sent in this version, with this uid, to a mutating
// or validating webhook. The error says what is wrong with it, in the words that follow `failed
// calling webhook "x": `.
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

// answer is an AdmissionReview as it comes back, of either version: their responses have the same
// fields. A request in it, which some webhooks send back, is nothing to look at.
type answer struct {
	metav1.TypeMeta `json:",inline"`
	Response        *admissionv1.AdmissionResponse `json:"response"`
}

// decode reads an AdmissionReview of one version and no other. What it doesn't say of its kind and
// version is taken for those. The errors are those of k8s.io/apimachinery's serializers, which read
// everything twice.
func (a *answer) decode(body []byte, version string) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, a); err != nil {
		if syntax, _ := kjson.SyntaxErrorOffset(err); syntax {
			return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
		}
		return err
	}
	said, err := schema.ParseGroupVersion(a.APIVersion)
	if err != nil {
		return err
	}
	want := reviewKind(version)
	if said.Version == "" && (said.Group == "" || said.Group == want.Group) {
		said = want.GroupVersion()
	}
	switch got := said.WithKind(cmp.Or(a.Kind, want.Kind)); {
	case got == want:
		return nil
	case got == reviewKind(v1) || got == reviewKind(v1beta1) || got == statusKind:
		return fmt.Errorf("converting (%s.%s) to (%s.AdmissionReview): unknown conversion", got.Version, got.Kind,
			version)
	default:
		return fmt.Errorf("no kind %q is registered for version %q", got.Kind, got.GroupVersion())
	}
}

// statusKind is what API servers answer that refuse a request, and the one kind that upstream's
// serializer knows besides reviews.
var statusKind = schema.GroupVersionKind{Version: v1, Kind: "Status"}

func reviewKind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: admissionv1.GroupName, Version: version, Kind: "AdmissionReview"}
}

// verify says what in an answer doesn't obey the rules. Authors of webhooks for v1beta1 were never
// held to uid, kind and patchType, nor kept from sending a patch to nobody.
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
// details of the webhook's status, which may be nil, and says by whom it was denied. A code that is
// none of a refusal becomes 400.
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
