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

// Review answers each call with what answer makes of its review. The kind, version and uid of the
// question are set in the answer where it has none. Reviews of v1beta1 look the same, and are told
// by TypeMeta. A call that isn't a review is answered with 400.
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

// Respond answers each call with what answer makes of its request.
func Respond(answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) http.Handler {
	return Review(func(review *admissionv1.AdmissionReview) *admissionv1.AdmissionReview {
		return &admissionv1.AdmissionReview{Response: answer(review.Request)}
	})
}

// Allow allows all.
func Allow() http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
}

// Deny denies all, with an HTTP code and a message.
func Deny(code int32, message string) http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: code, Message: message}}
	})
}

// Patch allows all, with a JSON patch.
func Patch(patch string) http.Handler {
	return Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		kind := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	})
}

// HugePatch allows all, with a JSON patch of at least size bytes.
func HugePatch(size int) http.Handler {
	return Patch(`[{"op":"add","path":"/metadata/annotations","value":{"huge":"` + strings.Repeat("x", size) + `"}}]`)
}

// Warnings allows all, with n warnings.
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

// NoResponse answers with a review that has no response in it.
func NoResponse() http.Handler {
	return Review(func(*admissionv1.AdmissionReview) *admissionv1.AdmissionReview {
		return &admissionv1.AdmissionReview{}
	})
}

// Truncated allows all in JSON that ends too early, in a response that doesn't.
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

// Delay waits before it has next answer. A call that is given up isn't answered.
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

// Hang never answers. It ends when the call is given up, and breaks off then: what a handler
// answers that returns would still be taken by a client that is just closing its connection.
func Hang() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// HTTP/1.1 notices a client that is gone only after its whole request
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
}

// Drip answers 200 and then a byte of white space each interval, until the call is given up.
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
				// returning would end the answer well, which a client may still get to see
				panic(http.ErrAbortHandler)
			}
		}
	})
}

// Endless answers 200 and then with JSON that doesn't end, until the call is given up.
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
