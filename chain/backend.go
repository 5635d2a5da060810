package chain

import (
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/admission"
)

// ErrBackendDown is how a call of a webhook, or of another backend, fails with WebhooksDown.
var ErrBackendDown = errors.New("all webhooks are taken to be down")

// Ask is for a plugin that asks a backend outside of the cluster which its own configuration names:
// it tells whether the plugin is to do so. Where it isn't, observers have been told of the backend
// and of what it would be asked about, and the request is to pass as if nobody had been there. The
// error is that the backend is to be taken to be down.
//
// What is asked has no side effects, so it may be for a dry run.
func (w WebhookCalls) Ask(a admission.Attributes, plugin, backend, about string) (bool, error) {
	switch w {
	case WebhooksSkipped:
		if calls := CallsOf(a); calls != nil {
			calls.Add(Call{Kind: Backend, Name: plugin, Backend: backend, Verdict: Skipped,
				Why: fmt.Sprintf("%s, about %s, but no webhooks are", WouldBeAsked, about)})
		}
		return false, nil
	case WebhooksDown:
		return false, ErrBackendDown
	}
	return true, nil
}
