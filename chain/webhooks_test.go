// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

// A plugin asks its backend, doesn't and observers are told, or takes it to be down.
func TestBackendsAreAsked(t *testing.T) {
	backend := &url.URL{Scheme: "https", User: url.UserPassword("u", "p"), Host: "b", RawQuery: "token=t"}
	for calls, want := range map[plugin.WebhookCalls]struct {
		ask  bool
		err  error
		told []plugin.Call
	}{
		plugin.WebhooksCalled: {ask: true},
		plugin.WebhooksAsked:  {ask: true},
		plugin.WebhooksSkipped: {told: []plugin.Call{{Kind: plugin.Backend, Name: "P", Backend: "https://b", Verdict: plugin.Skipped,
			Why: "it would be asked, about images a, b, but no webhooks are"}}},
		plugin.WebhooksDown: {err: plugin.ErrBackendDown},
	} {
		t.Run(string(calls), func(t *testing.T) {
			var told []plugin.Call
			asked := false
			c := newChain(t, validators(func(a admission.Attributes) error {
				var err error
				asked, err = calls.Ask(a, "P", backend, func() string { return "images a, b" })
				return err
			}), plugin.Observe{Want: plugin.Wants{Calls: true},
				Step: func(_ context.Context, step plugin.Step) { told = append(told, step.Calls...) }})
			err := c.Validate(t.Context(), create(newPod()), newInterfaces())
			if asked != want.ask || !errors.Is(err, want.err) || (err == nil) != (want.err == nil) {
				t.Errorf("asked: %t, and %v; want %t, %v", asked, err, want.ask, want.err)
			}
			if diff := cmp.Diff(want.told, told); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
