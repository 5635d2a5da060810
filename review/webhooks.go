// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/plugin"
)

// errNoConversion is the error of a conversion that needs a webhook if webhooks are skipped. An
// admission webhook can be skipped; without a conversion webhook there is no result.
var errNoConversion = errors.New("no webhooks are asked, and nobody else can convert it (--webhooks=ask has it asked)")

// refusesAsDown reports whether a request failed because webhooks are taken to be down.
func (r *Reviewer) refusesAsDown(d *v1alpha1.Decision) bool {
	if r.options.Webhooks == plugin.WebhooksDown {
		return d.By != ""
	}
	failed := false
	for i := range d.Steps {
		for _, c := range d.Steps[i].Calls {
			if c.Verdict != v1alpha1.Failed || c.FailedOpen {
				continue
			}
			for _, name := range []string{c.Configuration + "/" + c.Name, c.Name, c.Configuration} {
				if url, ok := r.options.LocalWebhooks[name]; ok {
					failed = failed || url == ""
					break
				}
			}
		}
	}
	return failed
}

// unmatchedWebhooks returns notes about the webhooks of --webhook that no configuration has.
func (r *Reviewer) unmatchedWebhooks(ctx context.Context) ([]string, error) {
	if len(r.options.LocalWebhooks) == 0 {
		return nil, nil
	}
	var names []string
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		like := &unstructured.Unstructured{}
		like.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1",
			Kind: kind})
		items, err := r.list(ctx, like)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			configuration, _, _ := unstructured.NestedString(item, "metadata", "name")
			names = append(names, configuration)
			webhooks, _, _ := unstructured.NestedSlice(item, "webhooks")
			for _, webhook := range webhooks {
				fields, _ := webhook.(map[string]any)
				name, _, _ := unstructured.NestedString(fields, "name")
				names = append(names, name, configuration+"/"+name)
			}
		}
	}
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(r.options.LocalWebhooks)) {
		wasnt := "it wasn't asked"
		if r.options.LocalWebhooks[name] == "" {
			wasnt = "nothing is down"
		}
		switch {
		case slices.Contains(names, name):
		case slices.ContainsFunc(r.options.Config.Plugins, func(d plugin.Descriptor) bool { return d.Name == name }):
			notes = append(notes, fmt.Sprintf("webhook %q: that is a plugin, whose backends are where its own "+
				"configuration says: no other was asked", name))
		default:
			notes = append(notes, fmt.Sprintf("webhook %q: no configuration has it%s %s", name,
				cmp.Or(nearest.Meant(name, names), ":"), wasnt))
		}
	}
	return notes, nil
}

// noteNotAsked notes the webhooks that weren't asked about an object that is made for a workload.
func (r *Reviewer) noteNotAsked(d *v1alpha1.Decision) {
	for _, webhook := range webhooksNotAsked(d) {
		if !slices.Contains(r.notAsked, webhook) {
			r.notAsked = append(r.notAsked, webhook)
		}
	}
}
