// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Review answers each call with the result of answer. If that has no kind, version or uid, it gets
// those of the call. Reviews of v1beta1 have the same type; TypeMeta has their version. A call that
// isn't a review gets status 400.
func Review(answer func(*admissionv1.AdmissionReview) *admissionv1.AdmissionReview) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, err := read(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review := answer(question)
		if review.APIVersion == "" && review.Kind == "" {
			review.TypeMeta = question.TypeMeta
		}
		if review.Response != nil && review.Response.UID == "" {
			review.Response.UID = question.Request.UID
		}
		data, err := json.Marshal(review)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		send(w, data)
	})
}

// Respond answers each call with the result of answer.
func Respond(answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) http.Handler {
	return Review(func(review *admissionv1.AdmissionReview) *admissionv1.AdmissionReview {
		return &admissionv1.AdmissionReview{Response: answer(review.Request)}
	})
}

// Allow allows every request.
func Allow() http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
}

// Deny denies every request, with an HTTP code and a message.
func Deny(code int32, message string) http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: code, Message: message}}
	})
}

// Patch allows every request, with a JSON patch.
func Patch(patch string) http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		kind := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	})
}

// HugePatch allows every request, with a JSON patch of at least size bytes.
func HugePatch(size int) http.Handler {
	return Patch(`[{"op":"add","path":"/metadata/annotations","value":{"huge":"` + strings.Repeat("x", size) + `"}}]`)
}

// Warnings allows every request, with n warnings.
func Warnings(n int) http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		warnings := make([]string, n)
		for i := range warnings {
			warnings[i] = fmt.Sprintf("warning %d", i)
		}
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
	})
}

// WrongUID answers with the uid of another request.
func WrongUID() http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{UID: "wrong", Allowed: true}
	})
}

// NoResponse answers with a review without a response.
func NoResponse() http.Handler {
	return Review(func(*admissionv1.AdmissionReview) *admissionv1.AdmissionReview {
		return &admissionv1.AdmissionReview{}
	})
}

// Truncated allows every request in JSON that ends too early, in a complete HTTP response.
func Truncated() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, err := read(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		send(w, fmt.Appendf(nil, `{"apiVersion":%q,"kind":"AdmissionReview","response":{"uid":%q,"allow`,
			question.APIVersion, question.Request.UID))
	})
}

// Status answers with an HTTP status, a content type and a body.
func Status(code int, contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
}

// HTML answers 200 with a web page.
func HTML() http.Handler {
	return Status(http.StatusOK, "text/html", "<!DOCTYPE html><html><body>It works!</body></html>")
}

// Redirect answers with a redirect to url.
func Redirect(url string) http.Handler {
	return http.RedirectHandler(url, http.StatusTemporaryRedirect)
}

// Delay waits before it calls next. If the client gives up, it doesn't call next.
func Delay(d time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	})
}

// Hang never answers. When the client gives up, it aborts the response: a client that is just closing
// its connection would still take the answer of a handler that returns.
func Hang() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// With HTTP/1.1 the server notices that a client is gone only after reading its request.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
}

// Drip answers 200 and then a byte of white space each interval, until the client gives up.
func Drip(interval time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				// Returning would end the answer properly, which the client may still see.
				panic(http.ErrAbortHandler)
			}
		}
	})
}

// Endless answers 200 and then with JSON that doesn't end, until the client gives up.
func Endless() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(`"` + strings.Repeat("x", 32<<10) + `",`)
		_, err := io.WriteString(w, "[")
		for err == nil {
			_, err = w.Write(chunk)
		}
	})
}

// CloseMidBody answers 200 with the first bytes of a longer body, and then breaks off: the stream
// with HTTP/2, the connection with HTTP/1.1.
func CloseMidBody() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"kind":`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

func read(r *http.Request) (*admissionv1.AdmissionReview, error) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, fmt.Errorf("not an AdmissionReview: %w", err)
	}
	if review.Request == nil {
		return nil, fmt.Errorf("the AdmissionReview has no request")
	}
	return &review, nil
}

func send(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
