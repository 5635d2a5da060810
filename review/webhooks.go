package review

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/nearest"
)

// strangers are notes about webhooks that are to be asked at another URL and that no configuration
// has.
func (r *Reviewer) strangers(ctx context.Context) ([]string, error) {
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
		if !slices.Contains(names, name) {
			notes = append(notes, fmt.Sprintf("webhook %q: no configuration has it%s: it wasn't asked", name,
				nearest.Meant(name, names)))
		}
	}
	return notes, nil
}
