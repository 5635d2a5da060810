// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"gatehouse.dev/webhook/server"
)

const (
	// An accepted token is reviewed again after freshFor, and kept for rememberedFor more, without
	// a bound on how often it is reviewed. A refused token is reviewed again after refusedFor.
	freshFor      = time.Minute
	rememberedFor = 10 * time.Minute
	refusedFor    = 10 * time.Second
	// reviewTimeout is how long a TokenReview may take.
	reviewTimeout = 2 * time.Second
	// maxTokens bounds the remembered tokens, and maxAddresses the addresses whose number of new
	// tokens is remembered.
	maxTokens, maxAddresses = 1024, 1024
	// New tokens of an address are reviewed once a second, and those of all 20 times.
	perAddress, perAddressBurst = 1, 3
	overall, overallBurst       = 20, 40
	// maxTokenLength is how many characters a token may have.
	maxTokenLength = 16 << 10
)

// A TokenReviewer creates TokenReviews, as a client's AuthenticationV1().TokenReviews() does.
type TokenReviewer interface {
	Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// Callers distinguishes known callers from strangers. It may be used concurrently.
type Callers struct {
	authorities *x509.CertPool
	reviewer    TokenReviewer

	mu        sync.Mutex
	tokens    map[[sha256.Size]byte]*token
	addresses map[string]flowcontrol.RateLimiter
	all       flowcontrol.RateLimiter
}

// A token holds what the API server has said of a bearer token.
type token struct {
	accepted bool
	until    time.Time
	asking   bool // it is being asked about again
}

// NewCallers returns Callers that knows a caller by a client certificate of the authorities, or by
// a token that the reviewer accepts. authorities may be nil.
func NewCallers(authorities *x509.CertPool, reviewer TokenReviewer) *Callers {
	return &Callers{authorities: authorities, reviewer: reviewer, tokens: map[[sha256.Size]byte]*token{},
		addresses: map[string]flowcontrol.RateLimiter{},
		all:       flowcontrol.NewTokenBucketRateLimiter(overall, overallBurst)}
}

// isKnown reports whether the caller is known.
func (c *Callers) isKnown(r *http.Request) bool {
	if _, verified := server.CallerFrom(r.Context()); verified {
		return true
	}
	return c.hasCertificate(r) || c.hasToken(r)
}

// hasCertificate reports whether the caller has shown a client certificate of the authorities.
func (c *Callers) hasCertificate(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	if len(r.TLS.VerifiedChains) > 0 {
		return true
	}
	if c.authorities == nil {
		return false
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.authorities, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// hasToken reports whether the caller has shown a token that the API server accepts.
func (c *Callers) hasToken(r *http.Request) bool {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || text == "" || len(text) > maxTokenLength {
		return false
	}
	key := sha256.Sum256([]byte(text))
	accepted, ask := c.lookUp(key, addressOf(r.RemoteAddr))
	if !ask {
		return accepted
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	review, err := c.reviewer.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: text}}, metav1.CreateOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if known := c.tokens[key]; known != nil {
			known.asking = false
		}
		return accepted
	}
	return c.remember(key, review.Status.Authenticated)
}

// lookUp reports whether a token has been accepted, and whether the API server is to be asked.
func (c *Callers) lookUp(key [sha256.Size]byte, address string) (accepted, ask bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	known := c.tokens[key]
	switch {
	case known != nil && (now.Before(known.until) || known.asking):
		return known.accepted, false
	case known != nil && known.accepted && now.Before(known.until.Add(rememberedFor)):
		known.asking = true
		return true, true
	}
	limiter := c.addresses[address]
	if limiter == nil {
		if len(c.addresses) >= maxAddresses {
			clear(c.addresses)
		}
		limiter = flowcontrol.NewTokenBucketRateLimiter(perAddress, perAddressBurst)
		c.addresses[address] = limiter
	}
	return false, limiter.TryAccept() && c.all.TryAccept()
}

// remember notes what the API server has said of a token, and returns it. c.mu is held.
func (c *Callers) remember(key [sha256.Size]byte, authenticated bool) bool {
	now := time.Now()
	for other, t := range c.tokens {
		if !t.asking && now.After(t.until.Add(rememberedFor)) || !t.accepted && now.After(t.until) {
			delete(c.tokens, other)
		}
	}
	if _, there := c.tokens[key]; !there && len(c.tokens) >= maxTokens {
		return authenticated
	}
	until := now.Add(refusedFor)
	if authenticated {
		until = now.Add(freshFor)
	}
	c.tokens[key] = &token{accepted: authenticated, until: until}
	return authenticated
}
