// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// dead is a kind whose preferred version takes a conversion webhook, and an API of another server. PORT is that of
// the API's server.
const dead = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: gates, singular: gate, kind: Gate}
  versions:
  - {name: v1, served: true, storage: true, schema: &any {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: *any}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "%s", caBundle: %s}}}
---
apiVersion: v1
kind: Service
metadata: {name: dead, namespace: default}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.dead.example.com}
spec: {group: dead.example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 10, insecureSkipTLSVerify: true,
  service: {namespace: default, name: dead, port: %[3]s}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: params}
spec:
  paramKind: {apiVersion: dead.example.com/v1, kind: Knob}
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  validations: [{expression: "params.on == true"}]
`

// A conversion webhook and an aggregated API that take connections and never answer don't hang lint, drill and why: they
// read what is theirs, and lint and drill say what they don't know.
func TestDeadBackends(t *testing.T) {
	c := servertest.Start(t)
	converter := webhooktest.New(t, webhooktest.Hang())
	_, port, err := net.SplitHostPort(webhooktest.Silent(t))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(dead, converter.URL("/"), base64.StdEncoding.EncodeToString(converter.Authority.PEM()), port)
	documents, errs := input.Read([]string{"-"}, strings.NewReader(linted+"---\n"+text))
	if errs != nil {
		t.Fatal(errs)
	}
	for _, d := range documents {
		resource, _ := meta.UnsafeGuessKindToResource(d.Object.GroupVersionKind())
		client := c.Dynamic.Resource(resource).Namespace(d.Object.GetNamespace())
		if _, err := client.Create(t.Context(), d.Object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gates := func(version string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "gates"}
	}
	servertest.Retry(t, "gates to be served", func() error {
		_, err := c.Dynamic.Resource(gates("v1")).Create(t.Context(), servertest.Parsed(t,
			"{apiVersion: example.com/v1, kind: Gate, metadata: {name: a}}"), metav1.CreateOptions{})
		return err
	})
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if list, err := c.Dynamic.Resource(gates("v2")).List(short, metav1.ListOptions{}); err == nil {
		t.Fatalf("the conversion webhook isn't dead: %v", list)
	}
	for _, tt := range []struct {
		command []string
		code    int
		want    string
	}{
		{[]string{"lint"}, 1, "error    own-pods  ValidatingWebhookConfiguration locking"},
		{[]string{"drill"}, 1, "locking.example.com"},
	} {
		start := time.Now()
		stdout, stderr, code := run(t, append(tt.command, "--kubeconfig="+c.Kubeconfig)...)
		took := time.Since(start)
		if took > 30*time.Second {
			t.Errorf("%s took %s", tt.command, took)
		}
		if strings.Contains(stdout, "param-kind") {
			t.Errorf("%s takes a kind for missing that isn't known:\n%s", tt.command, stdout)
		}
		if code != tt.code || !strings.Contains(stdout, tt.want) || !strings.Contains(stdout, "note: dead.example.com/v1: ") {
			t.Errorf("%s ended with %d, want %d and %q:\n%s%s", tt.command, code, tt.code, tt.want, stdout, stderr)
		}
	}
	stdout, stderr, code := run(t, "why", "gate/a", "--kubeconfig="+c.Kubeconfig)
	if code != 0 || !strings.Contains(stdout, "gates.example.com/a") || !strings.Contains(stdout, "CREATE") {
		t.Errorf("why ended with %d:\n%s%s", code, stdout, stderr)
	}
}
