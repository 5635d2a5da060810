// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	return serializer.NewCodecFactory(scheme)
}()

// serve is what a client gets from a handler behind the filter.
func serve(t testing.TB, method, url string, handler http.HandlerFunc) *http.Response {
	t.Helper()
	return serveBody(t, method, url, "", handler)
}

func serveBody(t testing.TB, method, url, body string, handler http.HandlerFunc) *http.Response {
	t.Helper()
	resolver := &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api")}
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	WithRequest(handler, codecs).ServeHTTP(recorder,
		r.WithContext(genericapirequest.WithRequestInfo(r.Context(), info)))
	return recorder.Result()
}

// Stores know whether a request waits, and whether it sees all objects.
func TestRequest(t *testing.T) {
	const pods = "/api/v1/namespaces/ns/pods"
	for _, test := range []struct {
		request        string
		includes, wait bool
	}{
		{"GET " + pods, false, false},
		{"GET " + pods + "?includeUninitialized=true", true, false},
		{"GET " + pods + "?includeUninitialized=1", false, false},
		{"GET " + pods + "?labelSelector=includeUninitialized%3Dtrue", false, false},
		{"GET " + pods + "?watch=1&includeUninitialized=true", true, false},
		{"GET " + pods + "/p?includeUninitialized=true", true, false},
		{"GET " + pods + "/p", false, false},
		{"GET " + pods + "/p/status", false, false},
		{"POST " + pods, true, true},
		{"POST " + pods + "?includeUninitialized=true", true, false},
		{"PUT " + pods + "/p", true, true},
		{"PATCH " + pods + "/p", true, true},
		{"PATCH " + pods + "/p?includeUninitialized=true", true, false},
		{"PUT " + pods + "/p/status", false, false},
		{"POST " + pods + "/p/eviction", false, false},
		{"DELETE " + pods + "/p", true, false},
		{"DELETE " + pods, true, false},
		{"POST /apis/example.com/v1/widgets", true, true},
		{"GET /version?includeUninitialized=true", false, false},
		{"POST /anything", false, false},
	} {
		t.Run(test.request, func(t *testing.T) {
			method, url, _ := strings.Cut(test.request, " ")
			serve(t, method, url, func(_ http.ResponseWriter, r *http.Request) {
				if got := requestFrom(r.Context()); got.includes() != test.includes || got.waits() != test.wait {
					t.Errorf("includes: %t, waits: %t", got.includes(), got.waits())
				}
			})
		})
	}
}

// A deletion sees what is hidden, unless it is only tried; the options stay for the handler.
func TestDeletions(t *testing.T) {
	const pods = "/api/v1/namespaces/ns/pods"
	for name, test := range map[string]struct {
		query, options string
		includes       bool
	}{
		"without options":              {"", "", true},
		"with options":                 {"", `{"gracePeriodSeconds": 0}`, true},
		"dry run by parameter":         {"?dryRun=All", "", false},
		"dry run by options":           {"", `{"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}`, false},
		"options win over parameters":  {"?dryRun=All", `{}`, true},
		"dry run of who asks for all":  {"?includeUninitialized=true&dryRun=All", "", true},
		"what isn't options":           {"", `[`, false},
		"what is longer than the most": {"", strings.Repeat(" ", maxOptions) + `{}`, false},
	} {
		for _, at := range []string{pods, pods + "/p"} {
			t.Run(name+" "+at, func(t *testing.T) {
				serveBody(t, http.MethodDelete, at+test.query, test.options, func(_ http.ResponseWriter,
					r *http.Request) {
					if got := requestFrom(r.Context()); got.includes() != test.includes || got.waits() {
						t.Errorf("includes: %t, waits: %t", got.includes(), got.waits())
					}
					if body, err := io.ReadAll(r.Body); err != nil || string(body) != test.options {
						t.Errorf("the handler reads %d bytes of %d, %v", len(body), len(test.options), err)
					}
				})
			})
		}
	}
}

// The answer is the handler's unless a store has another, and then it is that alone.
func TestAnswer(t *testing.T) {
	created := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "the ")
		fmt.Fprint(w, "object")
	}
	for name, test := range map[string]struct {
		handler  func(w http.ResponseWriter)
		replaced bool
		code     int
		body     string
	}{
		"the handler's": {created, false, 201, "the object"},
		"the store's":   {created, true, 504, `"message":"Timeout: too late"`},
		"the store's, not said": {func(w http.ResponseWriter) { fmt.Fprint(w, "the object") }, true, 504,
			`"reason":"Timeout"`},
		"an error of the handler's": {
			func(w http.ResponseWriter) { http.Error(w, "failed", http.StatusInternalServerError) }, true, 500,
			"failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			response := serve(t, http.MethodPost, "/api/v1/namespaces/ns/pods",
				func(w http.ResponseWriter, r *http.Request) {
					if test.replaced {
						requestFrom(r.Context()).answerWith(apierrors.NewTimeoutError("too late", 0))
					}
					test.handler(w)
				})
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != test.code || !strings.Contains(string(body), test.body) {
				t.Errorf("%d %s, %v", response.StatusCode, body, err)
			}
			if replaced := response.StatusCode == http.StatusGatewayTimeout; replaced &&
				(response.Header.Get("Content-Encoding") != "" || strings.Contains(string(body), "object")) {
				t.Errorf("%v %s", response.Header, body)
			}
		})
	}
}

// A request that doesn't write passes at no cost, one that writes at that of the place for its
// answer.
func BenchmarkWithRequest(b *testing.B) {
	handler := WithRequest(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), codecs)
	for verb, method := range map[string]string{"get": http.MethodGet, "create": http.MethodPost} {
		b.Run(verb, func(b *testing.B) {
			r := httptest.NewRequest(method, "/api/v1/namespaces/ns/pods", nil)
			r = r.WithContext(genericapirequest.WithRequestInfo(r.Context(),
				&genericapirequest.RequestInfo{IsResourceRequest: true, Verb: verb}))
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(w, r)
			}
		})
	}
}
