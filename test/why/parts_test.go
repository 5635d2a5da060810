// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

const labellingPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules:
    - {operations: [CREATE], apiGroups: [""], apiVersions: ["*"], resources: [pods]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"set-by": "policy", "tier": "policy"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
`

// Two webhooks and a policy change one pod, and overwrite each other's values. Each part has the
// name of what set it.
func TestPartsOfCalls(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	kubectl.OK(fmt.Sprintf(labellingPolicy, namespace), "create", "--filename=-")
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	for _, w := range []struct{ name, patch string }{
		{"1st", `[{"op":"test","path":"/metadata/labels/set-by","value":"policy"},` +
			`{"op":"replace","path":"/metadata/labels/set-by","value":"1st"},` +
			`{"op":"add","path":"/metadata/labels/first","value":"1st"},` +
			`{"op":"add","path":"/spec/containers/-","value":{"name":"proxy","image":"proxy:1"}}]`},
		{"2nd", `[{"op":"replace","path":"/metadata/labels/set-by","value":"2nd"},` +
			`{"op":"replace","path":"/spec/containers/1/image","value":"proxy:2"},` +
			`{"op":"add","path":"/spec/containers/0","value":{"name":"agent","image":"agent:2"}}]`},
	} {
		hook := mutating(w.name, namespace, webhooktest.New(t, webhooktest.Patch(w.patch)).ClientConfig("/"),
			rule("CREATE", "", "pods"))
		hook.ObjectSelector = labelled("parts")
		configuration.Webhooks = append(configuration.Webhooks, hook)
	}
	if _, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), configuration,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := dryCreate(t, c, namespace, "parts")
	servertest.Eventually(t, "the webhooks and the policy change the pod", func() bool {
		if err := create(); err != nil {
			return false // the policy isn't in force yet, so the first webhook's patch doesn't apply
		}
		stdout, _, _ := why(t, c, "pod/parts", "-n", namespace, "--limit=1")
		return strings.Contains(stdout, "2nd.example.com")
	})
	webhook := func(name string) string {
		return "by MutatingAdmissionWebhook: webhook " + name + ".example.com of " + namespace + " "
	}
	says(t, c, []string{"pod/parts", "-n", namespace, "--limit=1"},
		"by MutatingAdmissionPolicy: policy "+namespace+", binding "+namespace+
			" metadata.labels.set-by policy (and changed again below) metadata.labels.tier policy",
		webhook("1st")+"metadata.labels.first 1st "+
			"metadata.labels.set-by 1st (and changed again below) spec.containers[2] {name: proxy, image: proxy:1} "+
			webhook("2nd")+"metadata.labels.set-by 2nd spec.containers[0] {name: agent, image: agent:2} "+
			"spec.containers[2].image proxy:2")
}
