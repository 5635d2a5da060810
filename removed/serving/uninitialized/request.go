// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/util/apihelpers"

	"gatehouse.dev/removed/apis/initializers"
)

// request holds what a store must know of the HTTP request behind a call. A call without one, nil, reads
// without seeing hidden objects and waits for nothing.
type request struct {
	wait   bool
	answer atomic.Pointer[apierrors.StatusError]
}

// all is the request of calls that see all objects and don't wait. Nothing answers in their place.
var all = &request{}

type contextKey struct{}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(contextKey{}).(*request)
	return r
}

func (r *request) includes() bool { return r != nil }

func (r *request) waits() bool { return r != nil && r.wait }

// answerWith makes err the request's answer, whatever its handler says.
func (r *request) answerWith(err *apierrors.StatusError) { r.answer.Store(err) }

// WithRequest tells the stores below handler what each request asks for. If a creation waited in vain, it
// answers in the handler's place, encoding with serializer. It must be behind the filter that adds the
// RequestInfo.
func WithRequest(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := genericapirequest.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest {
			handler.ServeHTTP(w, r)
			return
		}
		var state *request
		switch info.Verb {
		case "get", "list", "watch":
			if asksForAll(r) {
				state = all
			}
		case "delete", "deletecollection":
			if asksForAll(r) || !isDryRun(r) {
				state = all
			}
		case "create", "update", "patch":
			switch {
			case info.Subresource != "":
			case asksForAll(r):
				state = all
			default:
				state = &request{wait: true}
			}
		}
		if state != nil {
			r = r.WithContext(context.WithValue(r.Context(), contextKey{}, state))
		}
		if state.waits() {
			w = responsewriter.WrapForHTTP1Or2(&answer{ResponseWriter: w, state: state, request: r,
				serializer: serializer})
		}
		handler.ServeHTTP(w, r)
	})
}

// asksForAll reports whether the request's parameters say includeUninitialized=true.
func asksForAll(r *http.Request) bool {
	// Few requests have it, and parsing parameters takes time.
	return strings.Contains(r.URL.RawQuery, initializers.Parameter) &&
		r.URL.Query().Get(initializers.Parameter) == "true"
}

// maxOptions is the length up to which a server reads the options of a deletion.
const maxOptions = 3 << 20

// isDryRun reports whether a deletion is a dry run, whose answer would show an object that stays. Options
// that can't be read delete nothing, either. They are read as the handler reads them, and the handler can
// read them again.
//
// Source: k8s.io/apiserver/pkg/endpoints/handlers/delete.go#DeleteResource 8866737b
func isDryRun(r *http.Request) bool {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxOptions+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	if err != nil || len(body) > maxOptions {
		return true
	}
	if len(body) == 0 {
		return strings.Contains(r.URL.RawQuery, "dryRun") && len(r.URL.Query()["dryRun"]) > 0
	}
	codecs := apihelpers.GetMetaInternalVersionCodecs()
	format, err := negotiation.NegotiateInputSerializer(r, false, codecs)
	if err != nil {
		return true
	}
	kind, options := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}, &metav1.DeleteOptions{}
	_, _, err = codecs.DecoderToVersion(format.Serializer, kind.GroupVersion()).Decode(body, &kind, options)
	return err != nil || len(options.DryRun) > 0
}

// answer takes a handler's answer, unless the request has another one by then.
type answer struct {
	http.ResponseWriter
	state      *request
	request    *http.Request
	serializer runtime.NegotiatedSerializer

	decided, replaced bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if err := a.state.answer.Load(); err != nil && !a.decided && code < http.StatusMultipleChoices {
		a.replaced = true
		a.Header().Del("Content-Encoding")
		responsewriters.ErrorNegotiated(err, a.serializer, schema.GroupVersion{}, a.ResponseWriter, a.request)
	}
	a.decided = true
	if !a.replaced {
		a.ResponseWriter.WriteHeader(code)
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if !a.decided {
		a.WriteHeader(http.StatusOK)
	}
	if a.replaced {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}
