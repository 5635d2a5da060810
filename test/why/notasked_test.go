// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/test/servertest"
)

// never is a policy that refuses what it is asked about, in a namespace, with its binding.
const never = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s-%[2]s}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], %[3]s}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
%[4]s
  validations: [{expression: 'false'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s-%[2]s}
spec:
  policyName: %[1]s-%[2]s
  validationActions: [Deny]
%[5]s
`

// Webhooks and policies that nearly were asked are named, the nearest first; by the audit ID all of
// them.
func TestNearMisses(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	kubectl.OK("", "create", "deployment", "web", "--image=nginx")
	for _, p := range []struct{ name, rule, spec, binding string }{
		{"a-selected", "resources: [deployments/scale]", "    objectSelector: {matchLabels: {a: b}}", ""},
		{"b-conditional", "resources: [deployments/scale]",
			"  matchConditions: [{name: never, expression: 'false'}]", ""},
		{"c-whole", "resources: [deployments]", "", ""},
		{"d-bound", "resources: [deployments/*]", "", "  matchResources: {resourceRules: [{operations: ['*'], " +
			"apiGroups: ['*'], apiVersions: ['*'], resources: [deployments]}]}"},
		{"e-excluded", "resources: [deployments/*]", "    excludeResourceRules: [{operations: ['*'], " +
			"apiGroups: ['*'], apiVersions: ['*'], resources: ['*/scale']}]", ""},
		{"f-named", "resources: [deployments/scale], resourceNames: [other]", "", ""},
	} {
		kubectl.OK(fmt.Sprintf(never, namespace, p.name, p.rule, p.spec, p.binding), "create", "--filename=-")
	}
	nowhere := "https://127.0.0.1:1/"
	w := mutating("whole", namespace, admissionregistrationv1.WebhookClientConfig{URL: &nowhere},
		rule("*", "apps", "deployments"))
	w.ObjectSelector = nil
	if _, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: []admissionregistrationv1.MutatingWebhook{w}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	of := func(policy, why string) string {
		return "ValidatingAdmissionPolicy " + policy + ": " + why
	}
	const isWhole = "its rules are for deployments, and not for deployments/scale"
	want := []string{
		"MutatingAdmissionWebhook whole.example.com: " + isWhole,
		of("c-whole", isWhole),
		of("d-bound", isWhole),
		of("e-excluded", "excludeResourceRules exclude the object"),
		of("f-named", "resourceNames of no rule name the object"),
		of("b-conditional", `match condition "never" is false`),
		of("a-selected", "objectSelector doesn't select the object"),
	}
	var newest v1alpha1.Decision
	servertest.Eventually(t, "all policies are in force", func() bool {
		kubectl.OK("", "scale", "deployment", "web", "--replicas=3")
		out, _, _ := why(t, c, "deploy/web", "-n", namespace, "-o", "json")
		var list v1alpha1.DecisionList
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatal(err)
		}
		newest = list.Items[0]
		skipped := 0
		for i := range newest.Steps {
			for j := range newest.Steps[i].Calls {
				if newest.Steps[i].Calls[j].Verdict == v1alpha1.Skipped {
					skipped++
				}
			}
		}
		return skipped == len(want)
	})
	out, _, _ := why(t, c, newest.Name)
	words := strings.NewReplacer(namespace+"-", "", ": webhook ", " ", " of "+namespace, "", ": policy ", " ").Replace(
		strings.Join(strings.Fields(out), " "))
	words = strings.ReplaceAll(words, ", binding d-bound", "")
	words = strings.ReplaceAll(words, ", binding b-conditional", "")
	if !strings.Contains(words, "not asked "+strings.Join(want, " ")+" took") {
		t.Errorf("it says\n%s\nand should say\n%s", words, strings.Join(want, " "))
	}
	says(t, c, []string{"deploy/web", "-n", namespace, "--limit=1"}, "UPDATE of scale",
		"not asked MutatingAdmissionWebhook: webhook whole.example.com", "and 2 more (gatehouse why "+newest.Name)
}

// Objects that webhooks and policies are never asked about are told of, too, and so are ephemeral
// containers.
func TestExemptKinds(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	manifest := fmt.Sprintf(never, namespace, "all", "resources: ['*']", "", "")
	selected := "    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: " + namespace + "}}\n"
	kubectl.OK(strings.Replace(manifest, selected, "    objectSelector: {matchLabels: {case: exempt}}\n", 1), "create",
		"--filename=-")
	nowhere := "https://127.0.0.1:1/"
	w := mutating("exempt", namespace, admissionregistrationv1.WebhookClientConfig{URL: &nowhere}, rule("*", "*", "*"))
	w.NamespaceSelector = nil
	hooks := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{w}}
	api := c.Client.AdmissionregistrationV1()
	if _, err := api.MutatingWebhookConfigurations().Create(t.Context(), hooks, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = api.MutatingWebhookConfigurations().Delete(context.Background(), namespace, metav1.DeleteOptions{})
	})
	const what = "validatingadmissionpolicybindings"
	name := namespace + "-other"
	servertest.Eventually(t, "both are in force", func() bool {
		kubectl.OK(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",`+
			`"metadata":{"name":"`+name+`","labels":{"case":"exempt"}},"spec":{"policyName":"none",`+
			`"validationActions":["Deny"]}}`, "create", "--dry-run=server", "--filename=-")
		out, _, _ := why(t, c, what+"/"+name, "--limit=1")
		return strings.Count(strings.Join(strings.Fields(out), " "), what+" are exempt, whatever its rules say") == 2
	})

	pod := servertest.Pod("debugged")
	if _, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl.OK("", "patch", "pod", "debugged", "--subresource=ephemeralcontainers", "--patch",
		`{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox"}]}}`)
	says(t, c, []string{"pod/debugged", "-n", namespace, "--limit=1"}, "UPDATE of ephemeralcontainers", "not asked "+
		"MutatingAdmissionWebhook: webhook exempt.example.com of "+namespace+": its rules are for pods, and not for "+
		"pods/ephemeralcontainers")
}

// Another plugin is no cause of a policy's refusal because its message has a field's name in it.
func TestNoCauseByWords(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	manifest, err := os.ReadFile("testdata/because.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kubectl.OK(string(manifest), "create", "--filename=-")
	request := func() error {
		pod := servertest.Pod("mem")
		pod.Labels = map[string]string{"c": "mem"}
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if err == nil {
			err := c.Client.CoreV1().Pods(namespace).Delete(t.Context(), "mem",
				metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
			if err != nil {
				t.Fatal(err)
			}
		}
		return err
	}
	refusedWith(t, c, namespace, "mem", "pod/mem", request, []string{"all spec.containers need a memory limit",
		"to pass Change the object so that the policy's expression holds"})
	if out, _, _ := why(t, c, "pod/mem", "-n", namespace, "--limit=1"); strings.Contains(out, "because") {
		t.Errorf("nothing that was changed is the cause:\n%s", out)
	}
}
