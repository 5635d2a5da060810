// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"
)

// maxBody is the largest size of a review, in bytes. An API server takes objects of up to 3 MiB, and a
// review may contain an old object besides the new one.
const maxBody = 7 << 20

// maxReserved is how many bytes are allocated for a body before it arrives.
const maxReserved = 64 << 10

const reviewKind = "AdmissionReview"

// A Handler decides about a request. As an http.Handler, it answers the AdmissionReviews that API
// servers post. It is called concurrently. The zero Response denies the request.
type Handler func(ctx context.Context, request *admissionv1.AdmissionRequest) Response

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	decide := FallibleHandler(func(ctx context.Context, request *admissionv1.AdmissionRequest) (Response, error) {
		return h(ctx, request), nil
	})
	FallibleHandler(func(ctx context.Context, request *admissionv1.AdmissionRequest) (Response, error) {
		response, err := decide.call(ctx, request)
		if err != nil { // it panicked
			response = Errored(err)
		}
		return response, nil
	}).ServeHTTP(w, r)
}

// A FallibleHandler is a Handler that may fail to decide. Its errors and panics become HTTP errors,
// with the code of the error if it is one of the API's. So the API server gets no answer, and the
// webhook's failurePolicy applies.
type FallibleHandler func(ctx context.Context, request *admissionv1.AdmissionRequest) (Response, error)

// ServeHTTP implements http.Handler.
func (h FallibleHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review, refused := read(w, r)
	if refused != nil {
		http.Error(w, refused.text, refused.code)
		return
	}
	ctx := r.Context()
	if timeout, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	response, err := h.answer(ctx, review.Request)
	if err != nil {
		http.Error(w, err.Error(), int(Errored(err).Result.Code))
		return
	}
	answer := admissionv1.AdmissionResponse(response)
	answer.UID = review.Request.UID
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &answer})
	if err != nil {
		http.Error(w, "encoding the response: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // it fails if the API server hung up
}

// answer returns the handler's response to a caller that may ask about the resource. It denies the request
// to another caller. That is an answer, so the webhook's failurePolicy doesn't apply.
func (h FallibleHandler) answer(ctx context.Context, request *admissionv1.AdmissionRequest) (Response, error) {
	if caller, ok := CallerFrom(ctx); ok && !caller.MayAskAbout(request.Resource.Group) {
		return refusal(metav1.Status{Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized,
			Message: deniedText}), nil
	}
	return h.call(ctx, request)
}

// call returns the handler's response, or an error if it panics.
func (h FallibleHandler) call(ctx context.Context, request *admissionv1.AdmissionRequest) (response Response,
	err error) {
	defer func() {
		if cause := recover(); cause != nil {
			klog.ErrorS(nil, "Webhook panicked", "uid", request.UID, "operation", request.Operation, "resource",
				request.Resource,
				"namespace", request.Namespace, "name", request.Name, "panic", fmt.Sprint(cause), "stack",
				string(debug.Stack()))
			err = fmt.Errorf("the webhook panicked: %v", cause)
		}
	}()
	return h(ctx, request)
}

// httpRefusal is the HTTP error of a call that isn't a valid review.
type httpRefusal struct {
	code int
	text string
}

func refuse(code int, format string, args ...any) *httpRefusal {
	return &httpRefusal{code, fmt.Sprintf(format, args...)}
}

// read reads a review that has a request with a uid.
func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, *httpRefusal) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, refuse(http.StatusMethodNotAllowed, "the method is %s: admission reviews are posted", r.Method)
	}
	contentType := r.Header.Get("Content-Type")
	if mediaType, _, err := mime.ParseMediaType(contentType); err != nil || mediaType != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType,
			"Content-Type is %q: admission reviews are application/json", contentType)
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxBody), r.ContentLength)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "reading the body: %v", err)
	}
	return decode(body)
}

// readAll does what io.ReadAll does, with a buffer of the right size if that is known to be small. A
// large Content-Length allocates no memory until the body arrives.
func readAll(r io.Reader, size int64) ([]byte, error) {
	var body bytes.Buffer
	if size > 0 {
		body.Grow(int(min(size, maxReserved)) + bytes.MinRead) // ReadFrom needs that much room at the end
	}
	_, err := body.ReadFrom(r)
	return body.Bytes(), err
}

// decode decodes a review of either version as one of v1, which has the same fields. Its TypeMeta has
// the version.
func decode(body []byte) (*admissionv1.AdmissionReview, *httpRefusal) {
	var review admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is no %s in JSON: %v", reviewKind, err)
	}
	v1, v1beta1 := admissionv1.SchemeGroupVersion.String(), admissionv1beta1.SchemeGroupVersion.String()
	switch {
	case review.Kind != reviewKind, review.APIVersion != v1 && review.APIVersion != v1beta1:
		return nil, refuse(http.StatusBadRequest,
			"the body has kind %q and apiVersion %q: this webhook answers %s of %s and %s",
			review.Kind, review.APIVersion, reviewKind, v1, v1beta1)
	case review.Request == nil:
		return nil, refuse(http.StatusBadRequest, "request: Required value")
	case review.Request.UID == "":
		return nil, refuse(http.StatusBadRequest, "request.uid: Required value")
	}
	return &review, nil
}
