// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// Conversion webhooks are called where webhooks are asked, and nowhere else: what needs one then
// can't be judged, and says so. What is sent in the version that is stored needs none.
func TestConversionWebhooks(t *testing.T) {
	var calls atomic.Int32
	converter := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var asked apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		response := &apiextensionsv1.ConversionResponse{UID: asked.Request.UID,
			Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range asked.Request.Objects {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal(raw.Raw, &object.Object); err != nil {
				t.Error(err)
			}
			object.SetAPIVersion(asked.Request.DesiredAPIVersion)
			response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: object})
		}
		asked.Request, asked.Response = nil, response
		if err := json.NewEncoder(w).Encode(asked); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(converter.Close)
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: converter.Certificate().Raw}))
	definition := func(clientConfig string) string {
		const schema = "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
		return fmt.Sprintf(`
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: gates, kind: Gate}
  versions:
  - {name: v1, served: true, storage: true, %[1]s}
  - {name: v2, served: true, storage: false, %[1]s}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {%[2]s}}
`, schema, clientConfig)
	}
	at := definition(fmt.Sprintf("url: %q, caBundle: %s", converter.URL, authority))
	byService := definition("service: {namespace: gates, name: converter, path: /convert}")
	gate := func(name, version string) string {
		return fmt.Sprintf("kind: Gate\napiVersion: example.com/%s\nmetadata: {name: %s}\n", version, name)
	}
	const remedy = "          to pass: Nobody refused it: it can't be had in another version of its kind. Have the " +
		"webhook answer that its CustomResourceDefinition names for that, or send it in the version that is stored.\n"
	const failed = "conversion webhook for example.com/v2, Kind=Gate failed: Post \"URL\": "
	const skipped = "no webhooks are asked, and nobody else can convert it (--webhooks=ask has it asked)\n"
	for name, test := range map[string]struct {
		state, input []string
		webhooks     plugin.WebhookCalls
		called       bool
		want         string
	}{
		"skipped": {state: []string{at}, input: []string{gate("a", "v1"), gate("b", "v2")},
			webhooks: plugin.WebhooksSkipped, want: `
admitted  Gate a  -:1
failed    Gate b  -:5
          ` + failed + skipped + remedy + `1 admitted, 0 refused, 1 failed
`},
		"skipped, of a service": {state: []string{byService}, input: []string{gate("a", "v1"), gate("b", "v2")}, want: `
admitted  Gate a  -:1
failed    Gate b  -:5
          ` + failed + skipped + remedy + `1 admitted, 0 refused, 1 failed
`},
		"skipped, where the state has another version": {state: []string{at, gate("a", "v1")},
			input: []string{gate("a", "v2")}, want: `
failed    Gate a  -:1
          ` + strings.Replace(failed, "v2", "v1", 1) + skipped + `0 admitted, 0 refused, 1 failed
`},
		"down": {input: []string{at, gate("b", "v2")}, webhooks: plugin.WebhooksDown, want: `
admitted  CustomResourceDefinition gates.example.com  -:2
failed    Gate b                                      -:16
          ` + failed + "all webhooks are taken to be down\n" + remedy + `1 admitted, 0 refused, 1 failed
`},
		"asked": {state: []string{at}, input: []string{gate("a", "v1"), gate("b", "v2")},
			webhooks: plugin.WebhooksAsked, called: true, want: `
admitted  Gate a  -:1
admitted  Gate b  -:5
2 admitted, 0 refused, 0 failed
`},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			got := judged(t, test.state, test.input, func(o *review.Options) { o.Webhooks = test.webhooks })
			got = strings.NewReplacer(converter.URL+"/", "URL", "https://converter.gates.svc:443/convert",
				"URL").Replace(got)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if called := calls.Load() > 0; called != test.called {
				t.Errorf("it was called %d times", calls.Load())
			}
		})
	}
}
