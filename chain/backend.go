package chain

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apiserver/pkg/admission"
)

// ErrBackendDown is how a call of a webhook, or of another backend, fails with WebhooksDown.
var ErrBackendDown = errors.New("all webhooks are taken to be down")

// Ask is for a plugin that asks a backend outside of the cluster which its own configuration names:
// it tells whether the plugin is to do so. Where it isn't, observers have been told of the backend,
// without credentials, and of what it would be asked about, and the request is to pass as if nobody
// had been there. The error is that the backend is to be taken to be down. backend is nil where it
// has no one address.
//
// What is asked has no side effects, so it may be for a dry run.
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
