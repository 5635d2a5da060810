// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// backends are a webhook's Service and Deployment.
var backends = []string{
	`{apiVersion: v1, kind: Namespace, metadata: {name: images, labels: {system: "yes"}}}`,
	`{apiVersion: v1, kind: Service, metadata: {name: hook, namespace: images}, spec: {selector: {app: hook},
	  ports: [{port: 443}]}}`,
	`{apiVersion: apps/v1, kind: Deployment, metadata: {name: hook, namespace: images}, spec: {
	  selector: {matchLabels: {app: hook}}, template: {metadata: {labels: {app: hook}},
	    spec: {containers: [{name: c, image: i}]}}}}`,
}

// hooked returns a configuration with a webhook in that namespace, with more fields of the webhook.
func hooked(kind, name, fields string) string {
	if !strings.Contains(fields, "timeoutSeconds") {
		fields += ", timeoutSeconds: 5"
	}
	return `{apiVersion: admissionregistration.k8s.io/v1, kind: ` + kind + `, metadata: {name: ` + name + `}, webhooks: [
	  {name: ` + name + `.example.com, clientConfig: {service: {namespace: images, name: hook}}, sideEffects: None,
	  admissionReviewVersions: [v1], ` + fields + `}]}`
}

const (
	mutates  = "MutatingWebhookConfiguration"
	validate = "ValidatingWebhookConfiguration"
	ofPods   = `rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]`
	ofAll    = `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]`
	ofNamed  = `rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [widgets]}]`
)

// warned returns a client, and the warnings that it gets.
func warned(config *rest.Config) (*warnings, dynamic.Interface) {
	got := &warnings{}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = got
	return got, dynamic.NewForConfigOrDie(config)
}

func create(t *testing.T, client dynamic.Interface, manifest string) {
	t.Helper()
	object := servertest.Parsed(t, manifest)
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if _, err := client.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), object,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A client that writes a webhook configuration is told what an outage of the webhook would stop.
func TestWarningsOfOutages(t *testing.T) {
	notSystem := `, namespaceSelector: {matchExpressions: [{key: system, operator: DoesNotExist}]}`
	for name, test := range map[string]struct {
		written string
		want    []string // parts of the warnings; none if it is empty
	}{
		"own pods": {written: hooked(validate, "v", ofPods), want: []string{
			"webhook v.example.com: it is asked about its own pods: while it can't be reached, these are refused: the " +
				"creation of pods of Deployment images/hook. So it can't start again by itself (to prevent it: exclude its " +
				"namespace with namespaceSelector, or its pods with objectSelector)"}},
		"own pods, under Ignore": {written: hooked(validate, "v", ofPods+", failurePolicy: Ignore"), want: []string{
			"each of these waits up to 5 seconds: the creation of pods of Deployment images/hook"}},
		"its namespace left out": {written: hooked(validate, "v", ofPods+notSystem)},
		"its pods left out": {written: hooked(validate, "v", ofPods+
			`, objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [hook]}]}`)},
		"everything": {written: hooked(mutates, "m", ofAll), want: []string{"it is asked about its own pods",
			"it is asked about the objects that bring it back", "a wildcard in its rules includes leases",
			"a wildcard in its rules includes nodes", "a wildcard in its rules includes certificatesigningrequests",
			"a wildcard in its rules includes events"}},
		"nothing of that": {written: hooked(mutates, "m", ofNamed)},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := servertest.Start(t)
			got, client := warned(cluster.Config)
			for _, manifest := range backends {
				create(t, client, manifest)
			}
			got.take()
			create(t, client, test.written)
			texts := got.take()
			for _, part := range test.want {
				if !strings.Contains(texts, part) {
					t.Errorf("no warning has %q:\n%s", part, texts)
				}
			}
			if n := strings.Count(texts, "(to prevent it: "); n != len(test.want) {
				t.Errorf("%d warnings, want %d:\n%s", n, len(test.want), texts)
			}
		})
	}
}

// The program that renews a webhook's certificate isn't warned; who changes the rules is.
func TestWarningsOfChangedWebhooks(t *testing.T) {
	cluster := servertest.Start(t)
	got, client := warned(cluster.Config)
	create(t, client, hooked(validate, "v", ofNamed))
	resource := client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingwebhookconfigurations"})
	for _, change := range []struct{ patch, want string }{
		{`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Cg=="}]`, ""},
		{`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, ""},
		{`[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["pods"]}]`, "its own pods"},
		{`[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`, ""},
	} {
		if _, err := resource.Patch(t.Context(), "v", types.JSONPatchType, []byte(change.patch),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if text := got.take(); !strings.Contains(text, change.want) || change.want == "" && text != "" {
			t.Errorf("%s: got %q, want %q", change.patch, text, change.want)
		}
	}
}

// kube-apiserver doesn't warn, of outages or of what no plugin enforces, and so a server in its place doesn't.
func TestKubeAPIServerDoesNotWarn(t *testing.T) {
	cluster := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.Warn = server.NewKubeAPIServerConfig(nil).Warn
		c.Admission.Disable = []string{"ResourceQuota"}
	}))
	got, client := warned(cluster.Config)
	create(t, client, quotas)
	create(t, client, hooked(validate, "v", ofAll)) // last: it is asked about all that follows
	if text := got.take(); text != "" {
		t.Errorf("got %q", text)
	}
}
