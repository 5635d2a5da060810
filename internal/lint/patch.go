// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/inventory"
)

// operation returns an operation of a JSON patch.
func operation(op, path string, value any) v1alpha1.PatchOperation {
	o := v1alpha1.PatchOperation{Op: op, Path: path}
	if value != nil {
		encoded, err := json.Marshal(value)
		if err != nil {
			panic(fmt.Sprintf("a patch with %v: %v", value, err)) // rules make values that are JSON
		}
		o.Value = &v1alpha1.Value{Raw: encoded}
	}
	return o
}

// patched is a change of one operation.
func patched(safe bool, op, path string, value any) change {
	return change{[]v1alpha1.PatchOperation{operation(op, path, value)}, safe}
}

// excludeNamespaces is the change after which a webhook is not asked about objects in namespaces.
func excludeNamespaces(w *inventory.Webhook, namespaces ...string) change {
	values := []any{}
	for _, n := range namespaces {
		values = append(values, n)
	}
	requirement := map[string]any{"key": corev1.LabelMetadataName, "operator": string(metav1.LabelSelectorOpNotIn),
		"values": values}
	selector := w.Stated.NamespaceSelector
	path := w.Path("/namespaceSelector")
	switch {
	case selector == nil:
		return patched(true, "add", path, map[string]any{"matchExpressions": []any{requirement}})
	case len(selector.MatchExpressions) == 0 && len(selector.MatchLabels) == 0:
		return patched(true, "replace", path, map[string]any{"matchExpressions": []any{requirement}})
	case len(selector.MatchExpressions) == 0:
		return patched(true, "add", path+"/matchExpressions", []any{requirement})
	}
	for i, e := range selector.MatchExpressions {
		if e.Key != corev1.LabelMetadataName || e.Operator != metav1.LabelSelectorOpNotIn {
			continue
		}
		c := change{safe: true}
		for _, n := range namespaces {
			if !slices.Contains(e.Values, n) {
				c.patch = append(c.patch, operation("add", fmt.Sprintf("%s/matchExpressions/%d/values/-", path, i), n))
			}
		}
		return c
	}
	return patched(true, "add", path+"/matchExpressions/-", requirement)
}

// exceptResource is the change after which a webhook is not asked about a resource.
func exceptResource(w *inventory.Webhook, safe bool, name, group, resource string) change {
	condition := map[string]any{"name": name,
		"expression": fmt.Sprintf("!(request.resource.group == %q && request.resource.resource == %q)", group, resource)}
	if group == "" && resource == "events" {
		condition["expression"] = `!(request.resource.group in ["", "events.k8s.io"] && ` +
			`request.resource.resource == "events")`
	}
	if len(w.Stated.MatchConditions) == 0 {
		return patched(safe, "add", w.Path("/matchConditions"), []any{condition})
	}
	return patched(safe, "add", w.Path("/matchConditions/-"), condition)
}
