// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugin"
)

// maxWaiting bounds the objects that a note names.
const maxWaiting = 4

// waitNotes returns a note for each webhook of the reviewed manifests that is asked about others of them while its
// own Service is only being created: the cluster refuses those until the webhook runs.
func waitNotes(documents []input.Document, results []Result) []string {
	created := map[string]bool{} // Services, as namespace/name
	for i := range results {
		d := results[i].Decision
		if results[i].Object.groupKind() == service.GroupKind() && d != nil && d.Request.Operation == string(admission.Create) {
			created[results[i].Object.Namespace+"/"+results[i].Object.Name] = true
		}
	}
	var notes []string
	for _, d := range documents {
		if len(created) == 0 {
			return nil
		}
		for _, webhook := range webhooksIn(d.Object) {
			name, _, _ := unstructured.NestedString(webhook, "name")
			policy, _, _ := unstructured.NestedString(webhook, "failurePolicy")
			namespace, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "namespace")
			backend, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "name")
			if policy == string(admissionregistrationv1.Ignore) || !created[namespace+"/"+backend] {
				continue
			}
			waiting := waitingFor(d.Object.GetName(), name, results)
			if len(waiting) == 0 {
				continue
			}
			if more := len(waiting) - maxWaiting; more > 1 {
				waiting = append(waiting[:maxWaiting], fmt.Sprintf("%d more", more))
			}
			notes = append(notes, fmt.Sprintf("%s: %s: webhook %s is asked about objects that are installed with its own "+
				"Service %s/%s: %s. With failurePolicy Fail the cluster refuses them until the webhook answers: leave them "+
				"out with its namespaceSelector or objectSelector, or apply the configuration once its pods are ready", d.Source,
				input.Named(d.Object), name, namespace, backend, strings.Join(waiting, ", ")))
		}
	}
	return notes
}

// webhooksIn returns the webhooks of a webhook configuration, or none for another object.
func webhooksIn(o *unstructured.Unstructured) (webhooks []map[string]any) {
	kind := o.GroupVersionKind()
	if kind.Group != admissionregistrationv1.GroupName || !strings.HasSuffix(kind.Kind, "WebhookConfiguration") {
		return nil
	}
	items, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			webhooks = append(webhooks, fields)
		}
	}
	return webhooks
}

// waitingFor returns the objects about which a webhook was asked, or would be.
func waitingFor(configuration, webhook string, results []Result) (waiting []string) {
	for i := range results {
		result := &results[i]
		switch {
		case asks(result.Decision, configuration, webhook):
			waiting = append(waiting, result.Object.String())
		case slices.ContainsFunc(result.Pods, func(p Pods) bool {
			return asks(p.Decision, configuration, webhook) || slices.ContainsFunc(p.NotAsked, func(line string) bool {
				return strings.HasPrefix(line, webhookText(webhook, configuration))
			})
		}):
			waiting = append(waiting, "the pods of "+result.Object.String())
		}
	}
	return waiting
}

// asks reports whether a webhook was asked for a decision, or would be by a cluster.
func asks(d *v1alpha1.Decision, configuration, webhook string) bool {
	return d != nil && slices.ContainsFunc(d.Steps, func(s v1alpha1.Step) bool {
		return slices.ContainsFunc(s.Calls, func(c v1alpha1.Call) bool {
			return c.Kind == string(plugin.Webhook) && c.Configuration == configuration && c.Name == webhook &&
				(c.Verdict != v1alpha1.Skipped || isNotAsked(&c))
		})
	})
}

// lostBundleNotes returns a note for each caBundle that an object had before an update, and that neither the update
// nor the stored object has.
func lostBundleNotes(at input.Source, sent, before, after *unstructured.Unstructured) []string {
	if before == nil || after == nil {
		return nil
	}
	had, has, given := caBundles(before), caBundles(after), caBundles(sent)
	var notes []string
	for _, b := range had {
		if b.data == "" || bundleOf(has, b.of) != "" || bundleOf(given, b.of) != "" ||
			!slices.ContainsFunc(has, func(other caBundle) bool { return other.of == b.of }) {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s: %s: the update takes away the caBundle of %s, which the manifest lacks: calls "+
			"fail until somebody writes it again. Leave the field caBundle out of the manifest, and use kubectl apply, which "+
			"keeps what others wrote", at, input.Named(before), b.of))
	}
	return notes
}

// A caBundle is the certificates with which a backend is verified.
type caBundle struct{ of, data string }

func bundleOf(all []caBundle, of string) string {
	for _, b := range all {
		if b.of == of {
			return b.data
		}
	}
	return ""
}

// caBundles returns the caBundles of the backends that an object names; empty ones, too.
func caBundles(o *unstructured.Unstructured) (all []caBundle) {
	for _, webhook := range webhooksIn(o) {
		name, _, _ := unstructured.NestedString(webhook, "name")
		data, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
		all = append(all, caBundle{"webhook " + name, data})
	}
	if o.GroupVersionKind().GroupKind() == definitionKind {
		if client, ok, _ := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook", "clientConfig"); ok {
			data, _ := client["caBundle"].(string)
			all = append(all, caBundle{"its conversion webhook", data})
		}
	}
	return all
}
