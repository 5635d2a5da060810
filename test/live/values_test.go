// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// working is a Deployment whose values are nobody's business, as `kubectl apply` leaves it.
const working = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: work
  namespace: default
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":
      "work","namespace":"default"},"spec":{"template":{"spec":{"containers":[{"name":"c","args":["--key=hush-0"]}]}}}}'
spec:
  replicas: 1
  selector: {matchLabels: {app: work}}
  template:
    metadata: {labels: {app: work}}
    spec:
      containers:
      - name: c
        image: work:1
        command: [hush-1]
        args: [--key=hush-2, --known]
        env: [{name: A, value: hush-3}, {name: LOG_LEVEL, value: debug}]
        livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: Authorization, value: hush-4}]}}
`

// A snapshot has no values of environment variables, arguments, commands and headers unless it is
// asked for them, or the manifests have them. A review goes by either.
func TestSnapshotWithoutValues(t *testing.T) {
	c := cluster()
	object := servertest.Parsed(t, working)
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	client := c.Dynamic.Resource(resource).Namespace("default")
	if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Delete(t.Context(), "work", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	secret := servertest.Parsed(t, `
apiVersion: v1
kind: Secret
metadata:
  name: applied
  namespace: default
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"k":"hush-5"}}'}
stringData: {k: hush-5}
`)
	of := c.Client.CoreV1().Secrets("default")
	secrets, _ := meta.UnsafeGuessKindToResource(secret.GroupVersionKind())
	if _, err := c.Dynamic.Resource(secrets).Namespace("default").Create(t.Context(), secret,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := of.Delete(t.Context(), "applied", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	manifest := written(t, "work.yaml", strings.NewReplacer("hush-", "other-").Replace(working)+`---
{apiVersion: v1, kind: Secret, metadata: {name: applied, namespace: default}, stringData: {k: other}}
`)
	flags := []string{"snapshot", "--kubeconfig=" + c.Kubeconfig, "--filename=" + manifest}
	for values, shown := range map[string][]string{
		"":                {"--known", "debug"},
		"--values=hidden": {"--known", "debug"},
		"--values=shown":  {"--known", "debug", "hush-0", "hush-1", "hush-2", "hush-3", "hush-4"},
	} {
		args := flags
		if values != "" {
			args = append(slices.Clone(flags), values)
		}
		snapshot, stderr, code := run(t, args...)
		if code != 0 {
			t.Fatalf("%s: the snapshot ended with %d, and said %q", values, code, stderr)
		}
		for _, value := range []string{"--known", "debug", "hush-0", "hush-1", "hush-2", "hush-3", "hush-4", "hush-5"} {
			if got, want := strings.Contains(snapshot, value), slices.Contains(shown, value); got != want {
				t.Errorf("%s: %s is in the snapshot: %t", values, value, got)
			}
		}
		const note = "values of environment variables, headers, arguments and commands of 1 object"
		hidden := len(shown) == 2
		if strings.Contains(stderr, note) != hidden ||
			strings.Contains(snapshot, "values of environment variables") != hidden {
			t.Errorf("%s: it said %q", values, stderr)
		}
		review, _, code := run(t, "review", "--state="+written(t, "state.yaml", snapshot), "--filename="+manifest)
		if code != 0 || !strings.Contains(review, "admitted  Deployment default/work") ||
			strings.Contains(review, "values of environment variables") != hidden {
			t.Errorf("%s: the review ended with %d, and said %s", values, code, review)
		}
	}
	if _, stderr, code := run(t, append(flags, "--values=some")...); code != 2 ||
		!strings.Contains(stderr, `--values: "some" must be hidden or shown`) {
		t.Errorf("it ended with %d, and said %q", code, stderr)
	}
}
