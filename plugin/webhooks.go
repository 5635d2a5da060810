// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apiserver/pkg/admission"
)

// WebhookCalls says whether admission webhooks are called, and other backends that plugins ask by
// their own configuration; see WebhookCalls.Ask.
type WebhookCalls string

const (
	// WebhooksCalled calls them, as a server does.
	WebhooksCalled WebhookCalls = ""
	// WebhooksSkipped lets every request pass that would be sent to them. Observers learn of it.
	WebhooksSkipped WebhookCalls = "skip"
	// WebhooksAsked calls those that can be called for a dry run, as for a dry run.
	WebhooksAsked WebhookCalls = "ask"
	// WebhooksDown makes every call fail.
	WebhooksDown WebhookCalls = "fail"
)

// WouldBeAsked begins the reason of a Call that isn't made only because of WebhookCalls.
const WouldBeAsked = "it would be asked"

// ErrBackendDown is the error of every call of a webhook or other backend with WebhooksDown.
var ErrBackendDown = errors.New("all webhooks are taken to be down")

// ErrWebhookDown is the error of every call of a webhook whose URL in Env.LocalWebhooks is empty.
var ErrWebhookDown = errors.New("it is taken to be down")

// Ask reports whether a plugin is to ask a backend that its own configuration names. If not, the
// plugin lets the request pass, and Ask has reported the backend, without credentials, as a skipped
// Call. The error says that the backend is taken to be down. backend is nil if it has no single
// address. about returns what the backend would be asked about.
//
// Such a question has no side effects, so it may be asked for a dry run.
func (w WebhookCalls) Ask(a admission.Attributes, plugin string, backend *url.URL, about func() string) (bool, error) {
	switch w {
	case WebhooksSkipped:
		if calls := CallsOf(a); calls != nil {
			call := Call{Kind: Backend, Name: plugin, Verdict: Skipped,
				Why: fmt.Sprintf("%s, about %s, but no webhooks are", WouldBeAsked, about())}
			if backend != nil {
				shown := *backend
				shown.User, shown.RawQuery = nil, ""
				call.Backend = shown.String()
			}
			calls.Add(call)
		}
		return false, nil
	case WebhooksDown:
		return false, ErrBackendDown
	}
	return true, nil
}
