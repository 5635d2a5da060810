// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/test/servertest"
)

const linted = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: locking}
webhooks:
- name: locking.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: unbound}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  validations: [{expression: "object.metadata.name != 'a'"}]
`

// Lint reads what a cluster has, and says which kinds it may not read.
func TestLint(t *testing.T) {
	c := servertest.Start(t)
	documents, errs := input.Read([]string{"-"}, strings.NewReader(linted))
	if errs != nil {
		t.Fatal(errs)
	}
	for _, d := range documents {
		resource, _ := meta.UnsafeGuessKindToResource(d.Object.GroupVersionKind())
		if _, err := c.Dynamic.Resource(resource).Create(t.Context(), d.Object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr, code := run(t, "lint", "--kubeconfig="+c.Kubeconfig)
	for _, want := range []string{
		"error    own-pods  ValidatingWebhookConfiguration locking locking.example.com\n",
		"error    kube-system  ValidatingWebhookConfiguration locking locking.example.com\n",
		"error    service-missing  ValidatingWebhookConfiguration locking locking.example.com\n",
		"warning  policy-unbound  ValidatingAdmissionPolicy unbound\n", ", 0 unread\n",
	} {
		if !strings.Contains(stdout, want) || code != 1 || stderr != "" {
			t.Errorf("it ended with %d, and lacks %q:\n%s%s", code, want, stdout, stderr)
		}
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range config.AuthInfos {
		auth.Impersonate = "nobody"
	}
	restricted := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, restricted); err != nil {
		t.Fatal(err)
	}
	stdout, _, code = run(t, "lint", "--kubeconfig="+restricted)
	if want := "unread   validatingwebhookconfigurations.admissionregistration.k8s.io: there is no right to list them"; code != 2 ||
		!strings.Contains(stdout, want) {
		t.Errorf("without rights it ended with %d, and lacks %q:\n%s", code, want, stdout)
	}
}
