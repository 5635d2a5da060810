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

// requesterOf returns the user who made the request as another one, nil for any other request.
func requesterOf(ctx context.Context) user.Info {
	if r, _ := ctx.Value(requesterKey{}).(*requester); r != nil {
		return r.user
	}
	return nil
}

// WithRequester has decisions say who made an impersonated request. It belongs around the server's
// authentication, which is to go through Authenticator. By the time that a request is recorded, the
// server knows only the user that it was made as.
func WithRequester(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(authenticationv1.ImpersonateUserHeader) != "" {
			req = req.WithContext(context.WithValue(req.Context(), requesterKey{}, &requester{}))
		}
		next.ServeHTTP(w, req)
	})
}

// Authenticator returns an authenticator that does what next does, for WithRequester to know whom
// it found.
func Authenticator(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		found, ok, err := next.AuthenticateRequest(req)
		if r, _ := req.Context().Value(requesterKey{}).(*requester); r != nil && r.user == nil && ok && err == nil {
			r.user = found.User
		}
		return found, ok, err
	})
}
