// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// chartWith has a webhook with a backend of its own, a ConfigMap about which it is asked, and a Deployment.
func chartWith(failurePolicy string) string {
	return shop + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: own}
webhooks:
- name: own.example.com
  clientConfig: {service: {namespace: shop, name: web}, caBundle: ""}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps, pods]}]
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: ` + failurePolicy + `
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 443}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}}
---` + deployment("web", 1)
}

// reviewNotes returns the notes of a review.
func reviewNotes(t *testing.T, state, manifests string, operation review.Operation) string {
	t.Helper()
	options := review.Options{Config: server.NewConfig(plugins.List), Operation: operation, Pods: true}
	if state != "" {
		options.State = documents(t, state)
	}
	r, err := review.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	judged, err := r.Review(t.Context(), documents(t, manifests), nil)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(judged.Notes, "\n")
}

// A chart whose own objects wait for its own webhook gets a note, unless failures are ignored or the Service runs.
func TestObjectsWaitForTheirOwnWebhook(t *testing.T) {
	const note = "ValidatingWebhookConfiguration own: webhook own.example.com is asked about objects that are installed " +
		"with its own Service shop/web: ConfigMap shop/c, the pods of Deployment shop/web. With failurePolicy Fail"
	if got := reviewNotes(t, "", chartWith("Fail"), ""); !strings.Contains(got, note) {
		t.Errorf("the notes are:\n%s", got)
	}
	if got := reviewNotes(t, "", chartWith("Ignore"), ""); strings.Contains(got, "its own Service") {
		t.Errorf("with failurePolicy Ignore the notes are:\n%s", got)
	}
	running := shop + "---\n{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 443}]}}\n"
	if got := reviewNotes(t, running, chartWith("Fail"), ""); strings.Contains(got, "its own Service") {
		t.Errorf("with a Service that is there the notes are:\n%s", got)
	}
}

// An update that takes away a caBundle gets a note. One that keeps it gets none.
func TestLostCABundles(t *testing.T) {
	// The manifest that was applied before had no caBundle.
	const applied = `, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}`
	hook := func(bundle string) string {
		return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w` + applied + `}
webhooks:
- name: w.example.com
  clientConfig: {service: {namespace: shop, name: web}` + bundle + `}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  admissionReviewVersions: [v1]
  sideEffects: None
`
	}
	definition := func(bundle string) string {
		return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com` + applied + `}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: shop, name: web}` + bundle + `}}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	}
	client := webhooktest.New(t, webhooktest.Respond(nil)).ClientConfig("/")
	injected := ", caBundle: " + base64.StdEncoding.EncodeToString(client.CABundle)
	for name, test := range map[string]struct {
		state, manifest string
		operation       review.Operation
		want            string
	}{
		"applied with an empty one": {hook(injected), hook(`, caBundle: ""`), "",
			"the update takes away the caBundle of webhook w.example.com"},
		"applied without":  {hook(injected), hook(""), "", ""},
		"replaced without": {hook(injected), hook(""), review.Update, "the update takes away the caBundle of webhook w.example.com"},
		"another":          {hook(injected), hook(injected), review.Update, ""},
		"never had one":    {hook(""), hook(""), review.Update, ""},
		"definition": {definition(injected), definition(`, caBundle: ""`), "",
			"the update takes away the caBundle of its conversion webhook"},
		"definition that keeps it": {definition(injected), definition(""), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := reviewNotes(t, test.state, test.manifest, test.operation)
			if says := strings.Contains(got, "takes away the caBundle"); says != (test.want != "") || !strings.Contains(got, test.want) {
				t.Errorf("the notes are:\n%s", got)
			}
		})
	}
}
