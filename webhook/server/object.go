// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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
// Fields that T doesn't have are left out. The kind isn't checked: a webhook whose rules cover several
// kinds looks at request.Kind first.
//
// The error is a 400 of the API, which Errored keeps. A DELETE has no object, which is such an error.
func Object[T any](request *admissionv1.AdmissionRequest) (*T, error) {
	return decodeObject[T](request, "object", request.Object.Raw)
}

// OldObject decodes, like Object, the stored object of an UPDATE or DELETE.
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

// Patched allows the request with its object changed: changed is the result of Object after the
// webhook's changes. The response contains a patch with these changes and no others. Fields that T
// doesn't have stay as the client sent them, so that a webhook may be older than the API. The exception
// is an element of a list that gets another name, which is replaced as a whole.
//
// If nothing has changed, the response is Allowed.
func Patched[T any](request *admissionv1.AdmissionRequest, changed *T) Response {
	original, err := Object[T](request)
	if err != nil {
		return Errored(err)
	}
	return PatchedFrom(request, original, changed)
}

// PatchedFrom is Patched for webhooks that decode objects themselves: original and changed are the
// request's object before and after the changes, as any values that encode to its JSON.
func PatchedFrom(request *admissionv1.AdmissionRequest, original, changed any) Response {
	if operations, ok := quickDiff(request.Object.Raw, original, changed); ok {
		return patchResponse(operations)
	}
	var sent, before, after any
	if err := errors.Join(unmarshal(request.Object.Raw, &sent), toDocument(original, &before),
		toDocument(changed, &after)); err != nil {
		return Errored(fmt.Errorf("making a patch: %w", err))
	}
	if _, ok := after.(map[string]any); !ok {
		return Errored(errors.New("making a patch: the changed object is no JSON object"))
	}
	return patchResponse(diff("", sent, before, after))
}

// patchResponse returns the response with a patch of these operations.
func patchResponse(operations []jsondiff.Operation) Response {
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

// toDocument encodes an object and decodes it into a document.
func toDocument(object any, document *any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return unmarshal(data, document)
}
