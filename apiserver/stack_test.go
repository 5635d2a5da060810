package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// around is a handler with so many others around it, whose frames are as large as those of the
// API server's filters are.
func around(handler http.Handler, filters int) http.Handler {
	for range filters {
		inner := handler
		handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			var frame [300]byte
			touch(frame[:])
			inner.ServeHTTP(w, req)
		})
	}
	return handler
}

// A request in two new goroutines with 20 and 60 handlers in them, with stacks that grow as they
// are needed, and with stacks that have grown before.
func BenchmarkStack(b *testing.B) {
	nobody := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, nil
	})
	inGoroutine := func(handler http.Handler, w http.ResponseWriter, req *http.Request) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			handler.ServeHTTP(w, req)
		}()
		<-done
	}
	for name, grown := range map[string]bool{"grows": false, "has grown": true} {
		b.Run(name, func(b *testing.B) {
			var who authenticator.Request = nobody
			if grown {
				who = withStackBelow{nobody}
			}
			innermost := around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
			}), 60)
			below := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if _, _, err := who.AuthenticateRequest(req); err != nil {
					b.Error(err)
				}
				innermost.ServeHTTP(w, req)
			})
			outermost := around(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				inGoroutine(below, w, req)
			}), 20)
			if grown {
				outermost = withStack(outermost)
			}
			req := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				inGoroutine(outermost, httptest.NewRecorder(), req)
			}
		})
	}
}
