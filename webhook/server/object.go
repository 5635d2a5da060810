package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/internal/quantity"
)

// Object decodes the object that a request would store, or the options of a CONNECT. T is a type
// with the object's JSON form: corev1.Pod, unstructured.Unstructured, metav1.PartialObjectMetadata.
// Fields that T doesn't have are left out, and so is everything of an object of another kind: a
// webhook whose rules cover several looks at request.Kind first.
//
// The error is a 400 of the API, as Errored takes it; a DELETE has no object and gives one.
func Object[T any](request *admissionv1.AdmissionRequest) (*T, error) {
	return decodeObject[T](request, "object", request.Object.Raw)
}

// OldObject does what Object does for the object that is stored already: that of an UPDATE or
// DELETE.
func OldObject[T any](request *admissionv1.AdmissionRequest) (*T, error) {
	return decodeObject[T](request, "oldObject", request.OldObject.Raw)
}

func decodeObject[T any](request *admissionv1.AdmissionRequest, field string, raw []byte) (*T, error) {
	if len(raw) == 0 {
		return nil,
			apierrors.NewBadRequest(fmt.Sprintf("request.%s: Required value: a request with operation %s has none",
				field, request.Operation))
	}
	object := new(T)
	err := quantity.CheckJSON(raw, new(T))
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("request.%s: Invalid value: decoding a %s into %s: %v", field,
			request.Kind.Kind, reflect.TypeFor[T](), err))
	}
	return object, nil
}

// Patched lets the request pass with its object changed: changed is what Object returned, with the
// changes made. The response has the patch for these changes and no others. What T has no fields
// for stays as the client sent it, so that a webhook does no harm to objects of an API that is
// newer than itself; only a list's element that gets another name is replaced as a whole.
//
// Without a change it is Allowed.
func Patched[T any](request *admissionv1.AdmissionRequest, changed *T) Response {
	original, err := Object[T](request)
	if err != nil {
		return Errored(err)
	}
	return PatchedFrom(request, original, changed)
}

// PatchedFrom is Patched for who decodes objects himself: original and changed are the request's
// object before and after the changes, in one Go type or another form that JSON is made of.
func PatchedFrom(request *admissionv1.AdmissionRequest, original, changed any) Response {
	if operations, ok := quick(request.Object.Raw, original, changed); ok {
		return patched(operations)
	}
	var documents [3]any // as sent, as T says it, as T says it with the changes
	if err := errors.Join(unmarshal(request.Object.Raw, &documents[0]), through(original, &documents[1]),
		through(changed, &documents[2])); err != nil {
		return Errored(fmt.Errorf("making a patch: %w", err))
	}
	if _, ok := documents[2].(map[string]any); !ok {
		return Errored(errors.New("making a patch: the changed object is no JSON object"))
	}
	return patched(diff("", documents[0], documents[1], documents[2]))
}

// patched is the response with a patch of these operations.
func patched(operations []jsondiff.Operation) Response {
	if len(operations) == 0 {
		return Allowed()
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return Errored(fmt.Errorf("making a patch: %w", err))
	}
	jsonPatch := admissionv1.PatchTypeJSONPatch
	return Response{Allowed: true, Patch: patch, PatchType: &jsonPatch}
}

// through turns an object into the document of its JSON form.
func through(object any, document *any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return unmarshal(data, document)
}
