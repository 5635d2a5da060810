// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"gatehouse.dev/webhook/review"
)

const (
	// tokenReserve is how long before its end a token is no longer shown: the webhook's clock may be
	// ahead, and a call takes time.
	tokenReserve = time.Minute
	// renewalTimeout bounds an attempt to renew a token, and renewalRetry is the time between attempts.
	renewalTimeout = 30 * time.Second
	renewalRetry   = 10 * time.Second
	// allGroups says that a token is for reviews of all API groups. The API server's own tokens are.
	allGroups = "*"
)

// A tokenFunc makes tokens; see plugin.Env.
type tokenFunc func(context.Context, *authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequestStatus, error)

// callerToken keeps the token by which a webhook knows the server. The token is bound to the webhook's
// configuration. It is renewed after half of its time.
type callerToken struct {
	makeStatus tokenFunc
	spec       authenticationv1.TokenRequestSpec
	// turn holds an element while a token is made.
	turn    chan struct{}
	current atomic.Pointer[shownToken]
}

// shownToken is a token as it is shown. It never changes.
type shownToken struct {
	text       string
	renew, end time.Time
}

// newCallerToken returns the tokens for a webhook of a configuration.
func newCallerToken(makeStatus tokenFunc, kind, name string, uid types.UID,
	cc admissionregistrationv1.WebhookClientConfig) *callerToken {
	return &callerToken{makeStatus: makeStatus, turn: make(chan struct{}, 1), spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{review.Audience(cc)},
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(),
			Kind: kind, Name: name, UID: uid},
		Attestations: map[string]authenticationv1.AttestationValue{
			authenticationv1.AttestationAdmissionReviewAPIGroups: {allGroups}},
	}}
}

// get returns a token that is good for a call. While a token is renewed, calls show the previous one.
func (t *callerToken) get(ctx context.Context) (string, error) {
	current, now := t.current.Load(), time.Now()
	if current != nil && now.Before(current.end) {
		if !now.Before(current.renew) {
			t.renew(ctx, current)
		}
		return current.text, nil
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-t.turn }()
	if other := t.current.Load(); other != current {
		return other.text, nil
	}
	made, err := t.makeToken(ctx)
	if err != nil {
		return "", err
	}
	return made.text, nil
}

// renew replaces a token in the background, unless that is under way.
func (t *callerToken) renew(ctx context.Context, current *shownToken) {
	select {
	case t.turn <- struct{}{}:
	default:
		return
	}
	if t.current.Load() != current {
		<-t.turn
		return
	}
	go func() {
		defer func() { <-t.turn }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewalTimeout)
		defer cancel()
		if _, err := t.makeToken(ctx); err != nil {
			klog.ErrorS(err, "The token for webhooks can't be renewed yet", "kind", t.spec.BoundObjectRef.Kind,
				"configuration", t.spec.BoundObjectRef.Name, "usableUntil", current.end)
			later := *current
			later.renew = time.Now().Add(renewalRetry)
			t.current.Store(&later)
		}
	}()
}

// makeToken makes a token and keeps it. The caller has its turn.
func (t *callerToken) makeToken(ctx context.Context) (*shownToken, error) {
	now := time.Now()
	status, err := t.makeStatus(ctx, &t.spec)
	if err != nil {
		return nil, err
	}
	end := status.ExpirationTimestamp.Time
	made := &shownToken{text: status.Token, renew: now.Add(end.Sub(now) / 2), end: end.Add(-tokenReserve)}
	t.current.Store(made)
	return made, nil
}
