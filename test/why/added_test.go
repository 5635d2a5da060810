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

// A refusal that is about what a webhook added, or set, names the webhook.
func TestRefusalsOfWhatWasAdded(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	c.Kubectl(t, namespace).OK("", "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=baseline")
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	const privileged = `{"name":"sc","image":"sc","securityContext":{"privileged":true}}`
	cases := []struct {
		name, patch string
		want        []string
	}{
		{"container", `[{"op":"add","path":"/spec/containers/-","value":` + privileged + `}]`,
			[]string{"because spec.containers[1] (sc) was added by "}},
		{"init", `[{"op":"add","path":"/spec/initContainers","value":[` + privileged + `]}]`,
			[]string{"because spec.initContainers[0] (sc) was added by "}},
		{"volume", `[{"op":"add","path":"/spec/volumes/-","value":{"name":"host","hostPath":{"path":"/"}}}]`,
			[]string{"because spec.volumes[1] (host) was added by "}},
		{"network", `[{"op":"add","path":"/spec/hostNetwork","value":true}]`,
			[]string{"because spec.hostNetwork was set to true by "}},
		{"field", `[{"op":"add","path":"/spec/containers/0/securityContext","value":{"privileged":true}}]`,
			[]string{"because spec.containers[0].securityContext.privileged was set to true by "}},
		{"moved", `[{"op":"replace","path":"/metadata/namespace","value":"default"}]`,
			[]string{"because metadata.namespace was set to default by ",
				"to pass Have what set metadata.namespace " +
					"leave it alone: an object is stored in the namespace that the request names."}},
	}
	for _, test := range cases {
		backend := webhooktest.New(t, webhooktest.Patch(test.patch))
		configuration.Webhooks = append(configuration.Webhooks,
			mutating(test.name, namespace, backend.ClientConfig("/"), rule("CREATE", "", "pods")))
	}
	if _, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), configuration,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, test := range cases {
		by := fmt.Sprintf("MutatingAdmissionWebhook: webhook %s.example.com of %s", test.name, namespace)
		test.want[0] += by
		refusedWith(t, c, namespace, test.name, "pod/"+test.name, dryCreate(t, c, namespace, test.name), test.want)
		stdout, _, _ := why(t, c, "pod/"+test.name, "-n", namespace)
		if strings.Count(strings.Join(strings.Fields(stdout), " "), " was ") != 1 {
			t.Errorf("%s has one cause:\n%s", test.name, stdout)
		}
	}
}

// crd is a custom resource with a schema, and one that keeps what isn't in its schema.
const crds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: knights.%[1]s.example.com}
spec:
  group: %[1]s.example.com
  scope: Namespaced
  names: {plural: knights, kind: Knight}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      horse: {type: string}, arms: {type: array, items: {type: object, properties: {kind: {type: string}}}}}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wizards.%[1]s.example.com}
spec:
  group: %[1]s.example.com
  scope: Namespaced
  names: {plural: wizards, kind: Wizard}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`

// policy patches custom resources.
const mutatingPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    objectSelector: {matchLabels: {case: policy}}
    resourceRules:
    - {operations: [CREATE], apiGroups: ["*"], apiVersions: ["*"], resources: [knights]}
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "add", path: "/spec/sword", value: "long"}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
`

// A patch that sets what an object's kind doesn't have is told of: the API server drops it, of
// custom resources what their schema doesn't have.
func TestDropped(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	kubectl.OK(fmt.Sprintf(crds, namespace), "create", "--filename=-")
	kubectl.OK("", "wait", "--for=condition=Established", "crd/knights."+namespace+".example.com",
		"crd/wizards."+namespace+".example.com")
	kubectl.OK(fmt.Sprintf(mutatingPolicy, namespace), "create", "--filename=-")
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	group := namespace + ".example.com"
	for _, hook := range []struct{ name, patch string }{
		{"typed", `[{"op":"add","path":"/spec/containers/0/imagePullPolice","value":"Never"},` +
			`{"op":"add","path":"/metadata/labels/a","value":"b"}]`},
		{"custom", `[{"op":"add","path":"/spec/sword","value":"long"},` +
			`{"op":"replace","path":"/spec/horse","value":"b"},` +
			`{"op":"add","path":"/spec/arms","value":[{"kind":"axe","lenght":1}]}]`},
		{"again", `[{"op":"add","path":"/spec/shield","value":"round"}]`},
		{"known", `[{"op":"replace","path":"/spec/horse","value":"b"}]`},
	} {
		w := mutating(hook.name, namespace, webhooktest.New(t, webhooktest.Patch(hook.patch)).ClientConfig("/"),
			rule("CREATE", "", "pods"), rule("CREATE", group, "*"))
		if hook.name == "again" {
			w.Name, w.ObjectSelector = "z"+w.Name, labelled("custom")
		}
		configuration.Webhooks = append(configuration.Webhooks, w)
	}
	if _, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), configuration,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	custom := func(kind, name, label string) string {
		return fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: %s, labels: {case: %s}}\nspec: {horse: a}",
			group, kind, name, label)
	}
	const by = "MutatingAdmissionWebhook: webhook "
	for _, test := range []struct {
		object, manifest string
		want             []string // nothing is dropped without them
	}{
		{"pod/typed", "apiVersion: v1\nkind: Pod\nmetadata: {name: typed, labels: {case: typed}}\n" +
			"spec: {containers: [{name: c, image: i}]}",
			[]string{by + "typed.example.com of " + namespace + ": its patch set spec.containers[0].imagePullPolice, " +
				"which objects of this kind don't have"}},
		{"knight." + group + "/custom", custom("Knight", "custom", "custom"), []string{
			by + "custom.example.com of " + namespace + ": its patch set spec.arms[0].lenght, spec.sword, which " +
				"objects of this kind don't have",
			by + "zagain.example.com of " + namespace + ": its patch set spec.shield, which objects",
		}},
		{"knight." + group + "/policy", custom("Knight", "policy", "policy"), []string{
			"MutatingAdmissionPolicy: policy " + namespace + ", binding " + namespace + ": its mutations set " +
				"spec.sword, which objects of this kind don't have"}},
		{"knight." + group + "/known", custom("Knight", "known", "known"), nil},
		{"wizard." + group + "/custom", custom("Wizard", "custom", "custom"), nil},
	} {
		servertest.Eventually(t, test.object+" is changed", func() bool {
			// kubectl may find a kind only a moment after it is established.
			_, _, code := kubectl.Run(test.manifest, "create", "--dry-run=server", "--filename=-")
			stdout, _, _ := why(t, c, test.object, "-n", namespace, "--limit=1")
			return code == 0 && (strings.Contains(stdout, "by Mutating") || strings.Contains(stdout, "dropped "))
		})
		if len(test.want) == 0 {
			stdout, _, _ := why(t, c, test.object, "-n", namespace, "--limit=1")
			if strings.Contains(stdout, "dropped") {
				t.Errorf("nothing is dropped of %s:\n%s", test.object, stdout)
			}
			continue
		}
		test.want[0] = "dropped " + test.want[0]
		says(t, c, []string{test.object, "-n", namespace, "--limit=1"}, test.want...)
	}
	kubectl.OK(custom("Knight", "stored", "custom"), "create", "--filename=-")
	if got := kubectl.OK("", "get", "knights."+group, "stored", "--output=jsonpath={.spec}"); got !=
		`{"arms":[{"kind":"axe"}],"horse":"b"}` {
		t.Errorf("what is stored is %s", got)
	}
}
