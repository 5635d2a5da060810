package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// A request's goroutines begin with small stacks, and each time that a stack is too small all of it
// is copied to one twice as large, frame by frame. With as many handlers around each other as there
// are here that took 5 % of a write's time on the processor. So both goroutines that the handlers
// run in get about what they will need while there is little to copy: the stream's, up to where the
// time limit begins, and the one below it, which verifies who asks first. 3 % are left: a third one
// is the library's, in which it stores, and begins where nothing of ours is called.

// withStack is for the handler around all others.
func withStack(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		growTo8K(false)
		handler.ServeHTTP(w, req)
	})
}

// withStackBelow has who is asked first in a request's second goroutine.
type withStackBelow struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (a withStackBelow) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	growTo32K(false)
	return a.Request.AuthenticateRequest(req)
}

// growTo8K has a stack of 8 KiB at least. A function needs room for all that it may have in its
// frame, used or not, and what it doesn't use isn't cleared.
//
//go:noinline
func growTo8K(use bool) {
	if use {
		var room [5 << 10]byte
		touch(room[:])
	}
}

// growTo32K has a stack of 32 KiB at least.
//
//go:noinline
func growTo32K(use bool) {
	if use {
		var room [20 << 10]byte
		touch(room[:])
	}
}

//go:noinline
func touch(room []byte) { clear(room) }
