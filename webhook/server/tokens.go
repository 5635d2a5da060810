// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// maxToken is the largest size of a token, in bytes.
const maxToken = 16 << 10

// deniedText is all that a caller learns of why its token is refused. The log has the reason.
const deniedText = "webhook token verification failed"

// algorithms are the ones by which API servers sign tokens.
//
// Source: k8s.io/kubernetes/pkg/serviceaccount/externaljwt/plugin/plugin.go#validateJWTHeader ba1ff9ea
var algorithms = []string{string(jose.RS256), string(jose.ES256), string(jose.ES384), string(jose.ES512)}

// TokenConfig says which tokens are accepted.
type TokenConfig struct {
	// Issuer is the issuer of the tokens, the first --service-account-issuer of the API server.
	Issuer string

	// KeyFiles name files with the keys that verify tokens. Each is in PEM form, as for
	// --service-account-key-file of the API server, or a JSON Web Key Set, as the API server has it at
	// /openid/v1/jwks. They are read again when they change.
	KeyFiles []string

	// Audiences are the webhook's addresses as its configuration has them, for which tokens are made:
	// the URL, or https://NAME.NAMESPACE.svc:PORT/PATH for a service. A token must be for one of them.
	Audiences []string
}

// Tokens verifies the tokens by which API servers show to webhooks who they are. Those are tokens of
// service accounts that are bound to a webhook configuration. It asks nobody.
type Tokens struct {
	config TokenConfig
	keys   *tokenKeys
	log    connectionLog
}

// NewTokens returns a verifier. It fails if something is missing, or if a file can't be used.
func NewTokens(config TokenConfig) (*Tokens, error) {
	switch {
	case config.Issuer == "":
		return nil, errors.New("webhook tokens: Issuer: Required value")
	case len(config.KeyFiles) == 0:
		return nil, errors.New("webhook tokens: KeyFiles: Required value")
	case len(config.Audiences) == 0 || slices.Contains(config.Audiences, ""):
		return nil, errors.New("webhook tokens: Audiences: Required value")
	}
	keys, err := newTokenKeys(config.KeyFiles)
	if err != nil {
		return nil, fmt.Errorf("webhook tokens: %w", err)
	}
	return &Tokens{config: config, keys: keys, log: connectionLog{print: klog.Warning}}, nil
}

// Require returns a handler that passes on the calls with a valid token. It answers others with status
// 401, before it reads their body. A Handler behind it also denies reviews of API groups that the token
// doesn't cover. Another http.Handler must ask the Caller about that.
func (t *Tokens) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := t.verify(r.Header.Values("Authorization"))
		if err != nil {
			_, _ = fmt.Fprintf(&t.log, "Refused a call to a webhook from %s: %v\n", r.RemoteAddr, err)
			// The server isn't to wait for the body. If the deadline can't be set, its own one holds.
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, deniedText, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// A Caller is an API server that has shown a valid token.
type Caller struct {
	// Subject is the name of the service account that the token is for.
	Subject string
	// Kind, Name and UID are those of the webhook configuration to which the token is bound.
	Kind, Name string
	UID        types.UID
	// APIGroups are the groups about whose resources the caller may ask; "*" for all.
	APIGroups []string
}

type callerKey struct{}

// CallerFrom returns the caller of a call that Tokens has passed on.
func CallerFrom(ctx context.Context) (*Caller, bool) {
	caller, ok := ctx.Value(callerKey{}).(*Caller)
	return caller, ok
}

// MayAskAbout reports whether the caller may ask about resources of an API group.
func (c *Caller) MayAskAbout(group string) bool {
	return slices.Contains(c.APIGroups, "*") || slices.Contains(c.APIGroups, group)
}

// privateClaims are those of Kubernetes.
//
// Source: k8s.io/kubernetes/pkg/serviceaccount/claims.go#kubernetes b06d5b53
type privateClaims struct {
	Kubernetes struct {
		Validating   *boundTo            `json:"validatingwebhookconfiguration"`
		Mutating     *boundTo            `json:"mutatingwebhookconfiguration"`
		Attestations map[string][]string `json:"attestations"`
	} `json:"kubernetes.io"`
}

type boundTo struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// verify returns the caller that shows a token in the Authorization headers of a call. The error doesn't
// have the token.
func (t *Tokens) verify(headers []string) (*Caller, error) {
	text, err := bearer(headers)
	if err != nil {
		return nil, err
	}
	token, err := jwt.ParseSigned(text)
	if err != nil || len(token.Headers) != 1 {
		return nil, errors.New("what it shows is no signed token")
	}
	header := token.Headers[0]
	if !slices.Contains(algorithms, header.Algorithm) {
		return nil, errors.New("the token isn't signed as API servers sign tokens")
	}
	var public jwt.Claims
	var private privateClaims
	if !slices.ContainsFunc(t.keys.candidates(header.KeyID), func(key jose.JSONWebKey) bool {
		return token.Claims(key.Key, &public, &private) == nil
	}) {
		return nil, errors.New("no key verifies the token")
	}
	if err := t.checkClaims(&public); err != nil {
		return nil, err
	}
	return callerOf(public.Subject, &private)
}

// bearer returns the token of a call.
func bearer(headers []string) (string, error) {
	if len(headers) != 1 {
		return "", errors.New("it shows no token")
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer") || text == "":
		return "", errors.New("it shows no token")
	case len(text) > maxToken:
		return "", fmt.Errorf("the token has more than %d bytes", maxToken)
	case strings.Count(text, ".") != 2 || strings.ContainsAny(text, "{ \t\r\n"):
		// There are other forms of signed JSON, whose header isn't signed.
		return "", errors.New("what it shows is no signed token")
	}
	return text, nil
}

// checkClaims checks the claims that all tokens have.
func (t *Tokens) checkClaims(public *jwt.Claims) error {
	if public.Issuer != t.config.Issuer {
		return errors.New("the token has another issuer")
	}
	if !slices.ContainsFunc(t.config.Audiences, public.Audience.Contains) {
		return errors.New("the token is for another audience")
	}
	if public.Expiry == nil {
		return errors.New("the token never expires")
	}
	// Source: k8s.io/kubernetes/pkg/serviceaccount/claims.go#validator.Validate 2520d44e
	switch err := public.Validate(jwt.Expected{Time: time.Now()}); {
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	default:
		return err
	}
}

// callerOf returns the caller that a verified token is for.
func callerOf(subject string, private *privateClaims) (*Caller, error) {
	c := &Caller{Subject: subject, APIGroups: private.Kubernetes.Attestations["admissionReviewAPIGroups"]}
	bound := private.Kubernetes.Validating
	c.Kind = "ValidatingWebhookConfiguration"
	if bound == nil {
		bound, c.Kind = private.Kubernetes.Mutating, "MutatingWebhookConfiguration"
	} else if private.Kubernetes.Mutating != nil {
		return nil, errors.New("the token is bound to two webhook configurations")
	}
	if bound == nil || bound.Name == "" || bound.UID == "" {
		return nil, errors.New("the token isn't bound to a webhook configuration")
	}
	if len(c.APIGroups) == 0 {
		return nil, errors.New("the token has no attestation admissionReviewAPIGroups")
	}
	c.Name, c.UID = bound.Name, bound.UID
	return c, nil
}
