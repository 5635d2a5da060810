// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// requester holds the user who made an impersonated request, from authentication on.
type requester struct{ user user.Info }

type requesterKey struct{}

// requesterOf returns the user who impersonated the user of the request, nil if nobody did.
func requesterOf(ctx context.Context) user.Info {
	if r, _ := ctx.Value(requesterKey{}).(*requester); r != nil {
		return r.user
	}
	return nil
}

// WithRequester makes decisions name the user who impersonated another one. It belongs around the
// authentication of the server, which must use Authenticator: when a request is recorded, the
// server knows only the impersonated user.
func WithRequester(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(authenticationv1.ImpersonateUserHeader) != "" {
			req = req.WithContext(context.WithValue(req.Context(), requesterKey{}, &requester{}))
		}
		next.ServeHTTP(w, req)
	})
}

// Authenticator returns an authenticator that calls next and keeps the user for WithRequester.
func Authenticator(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		found, ok, err := next.AuthenticateRequest(req)
		if r, _ := req.Context().Value(requesterKey{}).(*requester); r != nil && r.user == nil && ok && err == nil {
			r.user = found.User
		}
		return found, ok, err
	})
}
