// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"encoding/json"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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

// planned returns a webhook as it is once the patches of the findings before are applied, one after the other. A change
// of it counts for the findings to come. Fix makes one change at a time.
func (l *linting) planned(w *inventory.Webhook) *admissionregistrationv1.MutatingWebhook {
	if _, ignored := ignoredFor(w.Document.Object, l.rule.ID); ignored || l.options.alone {
		return w.Stated.DeepCopy()
	}
	if l.plans[w] == nil {
		l.plans[w] = w.Stated.DeepCopy()
	}
	return l.plans[w]
}

// excludeNamespaces is the change after which a webhook is not asked about objects in namespaces. It is empty if a change
// before does that.
func (l *linting) excludeNamespaces(w *inventory.Webhook, namespaces ...string) change {
	requirement := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
		Values: namespaces}
	plan := l.planned(w)
	selector, path := plan.NamespaceSelector, w.Path("/namespaceSelector")
	if selector == nil || len(selector.MatchExpressions) == 0 && len(selector.MatchLabels) == 0 {
		op := "add"
		if w.Stated.NamespaceSelector != nil {
			op = "replace"
		}
		plan.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}}
		return patched(true, op, path, plan.NamespaceSelector)
	}
	for i := range selector.MatchExpressions {
		e := &selector.MatchExpressions[i]
		if e.Key != corev1.LabelMetadataName || e.Operator != metav1.LabelSelectorOpNotIn {
			continue
		}
		c := change{}
		for _, n := range namespaces {
			if !slices.Contains(e.Values, n) {
				c.patch = append(c.patch, operation("add", fmt.Sprintf("%s/matchExpressions/%d/values/-", path, i), n))
				e.Values = append(e.Values, n)
			}
		}
		c.safe = len(c.patch) > 0
		return c
	}
	selector.MatchExpressions = append(selector.MatchExpressions, requirement)
	if len(selector.MatchExpressions) == 1 {
		return patched(true, "add", path+"/matchExpressions", selector.MatchExpressions)
	}
	return patched(true, "add", path+"/matchExpressions/-", requirement)
}

// exceptResource is the change after which a webhook is not asked about a resource.
func (l *linting) exceptResource(w *inventory.Webhook, safe bool, name, group, resource string) change {
	condition := admissionregistrationv1.MatchCondition{Name: name,
		Expression: fmt.Sprintf("!(request.resource.group == %q && request.resource.resource == %q)", group, resource)}
	if group == "" && resource == "events" {
		condition.Expression = `!(request.resource.group in ["", "events.k8s.io"] && ` +
			`request.resource.resource == "events")`
	}
	plan := l.planned(w)
	plan.MatchConditions = append(plan.MatchConditions, condition)
	if len(plan.MatchConditions) == 1 {
		return patched(safe, "add", w.Path("/matchConditions"), plan.MatchConditions)
	}
	return patched(safe, "add", w.Path("/matchConditions/-"), condition)
}
