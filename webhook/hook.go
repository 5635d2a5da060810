// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/webhook/backend"
	"gatehouse.dev/webhook/review"
)

// hook is one webhook of a configuration, ready to be matched and called. Except for its client, it
// never changes.
type hook struct {
	// spec is the webhook's part of the configuration. A validating webhook has the form of a
	// mutating one that is never reinvoked.
	spec admissionregistrationv1.MutatingWebhook
	// uid distinguishes it from all other webhooks. Names are unique only within a configuration,
	// and in configurations that were stored long ago not even there.
	uid string
	// owner is the uid of its configuration; empty for one from a manifest.
	owner         types.UID
	configuration string
	name          string
	// static reports whether it is from a manifest, which the API can't change.
	static bool

	criteria   *matching.Criteria
	conditions *expression.Conditions

	// backend is its address in reports to users.
	backend string
	// client is nil until connect has succeeded, at the latest try before a call.
	client  atomic.Pointer[backend.Client]
	connect func() (*backend.Client, error)
	// timeout bounds a call, unless it is 0.
	timeout time.Duration
	// reviewVersion is the version of the AdmissionReviews that it is sent. It is empty if the
	// webhook accepts none that package review has.
	reviewVersion string

	// ignoreFailures reports whether failurePolicy is Ignore.
	ignoreFailures bool
	// noSideEffects reports whether it may be called for a dry run.
	noSideEffects bool
	// reinvocable reports whether reinvocationPolicy is IfNeeded.
	reinvocable bool
	// local reports whether it is called at another URL than its configuration's, down whether it is taken to be
	// down there.
	local, down bool
}

// compiler makes hooks.
type compiler struct {
	expressions *expression.Compiler
	backends    *backend.Pool
	// local holds the URLs of webhooks that are called elsewhere; see plugin.Env.
	local map[string]string
	// token makes the tokens that webhooks are shown. It is nil if they are shown none.
	token tokenFunc
}

// compile makes a hook. The webhook is shown the token, unless that is nil. compile never fails: if
// something is wrong with a webhook, the requests for which it is called fail.
func (c *compiler) compile(spec admissionregistrationv1.MutatingWebhook, uid, configuration string, static bool,
	token *callerToken) *hook {
	h := &hook{spec: spec, uid: uid, configuration: configuration, name: spec.Name, static: static}

	h.ignoreFailures = hasValue(spec.FailurePolicy, admissionregistrationv1.Ignore)
	h.noSideEffects = hasValue(spec.SideEffects, admissionregistrationv1.SideEffectClassNone) ||
		hasValue(spec.SideEffects, admissionregistrationv1.SideEffectClassNoneOnDryRun)
	h.reinvocable = hasValue(spec.ReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy)

	h.criteria = matching.NewWebhookCriteria(spec.Rules, spec.MatchPolicy, spec.NamespaceSelector, spec.ObjectSelector)
	h.conditions = c.expressions.Compile(spec.MatchConditions)

	h.backend = backendAddress(&spec.ClientConfig)
	h.connect = func() (*backend.Client, error) {
		client, err := c.backends.Client(spec.ClientConfig)
		if err != nil || token == nil {
			return client, err
		}
		return client.WithToken(token.get), nil
	}
	for _, name := range []string{configuration + "/" + spec.Name, spec.Name, configuration} {
		if url, ok := c.local[name]; ok {
			h.local = true
			if url == "" {
				h.down = true
				break
			}
			h.backend = url
			h.connect = func() (*backend.Client, error) { return backend.Local(url, spec.ClientConfig) }
			break
		}
	}
	_, _ = h.getClient() // if it fails, so will calls
	if spec.TimeoutSeconds != nil {
		h.timeout = time.Duration(*spec.TimeoutSeconds) * time.Second
	}
	h.reviewVersion = review.Version(spec.AdmissionReviewVersions)
	return h
}

// getClient returns the webhook's client. If that can't be made, the next call tries again: a file
// with credentials may be late, or in the midst of a change.
func (h *hook) getClient() (*backend.Client, error) {
	if client := h.client.Load(); client != nil {
		return client, nil
	}
	client, err := h.connect()
	if err != nil {
		return nil, err
	}
	h.client.Store(client)
	return client, nil
}

// hasValue reports whether an optional field is set to the value.
func hasValue[T comparable](field *T, value T) bool { return field != nil && *field == value }
