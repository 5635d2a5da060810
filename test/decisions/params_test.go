// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/test/servertest"
)

// Policies whose params are a Secret can put its values into messages, warnings and objects. A
// viewer of decisions sees none of them.
func TestSecretParams(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	const plain = "correct-horse-battery-staple"
	value := base64.StdEncoding.EncodeToString([]byte(plain)) // as policies see it
	if _, err := c.Client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": plain}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	within := `matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + namespace + `}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]`
	bound := func(kind, policy, actions string) string {
		return `{apiVersion: admissionregistration.k8s.io/v1, kind: ` + kind + `PolicyBinding, metadata: {name: ` +
			policy + `}, spec: {policyName: ` + policy + actions + `, paramRef: {name: s, namespace: ` + namespace +
			`, parameterNotFoundAction: Deny}}}`
	}
	for _, manifest := range []string{`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: copies-a-secret}
spec:
  paramKind: {apiVersion: v1, kind: Secret}
  ` + within + `
  reinvocationPolicy: Never
  matchConditions: [{name: has-data, expression: has(object.data)}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "add", path: "/data/copied", value: string(params.data.a)}]'}
`, bound("MutatingAdmission", "copies-a-secret", ""), `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: warns-of-a-secret}
spec:
  paramKind: {apiVersion: v1, kind: Secret}
  ` + within + `
  validations: [{expression: 'false', messageExpression: '"it is " + string(params.data.a)'}]
`, bound("ValidatingAdmission", "warns-of-a-secret", ", validationActions: [Warn]"), `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: tells-a-secret}
spec:
  paramKind: {apiVersion: v1, kind: Secret}
  ` + within + `
  validations:
  - {expression: 'object.metadata.name != "refused"', messageExpression: '"it is " + string(params.data.a)'}
`, bound("ValidatingAdmission", "tells-a-secret", ", validationActions: [Deny]")} {
		object := servertest.Parsed(t, manifest)
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		if _, err := c.Dynamic.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Dynamic.Resource(resource).Delete(context.Background(), object.GetName(),
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	maps := c.Client.CoreV1().ConfigMaps(namespace)
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
	}
	// The last validating policy is in force after the one before it.
	servertest.Eventually(t, "policies in force", func() bool {
		trial := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := maps.Create(t.Context(), named("refused"), trial)
		copied, copyErr := maps.Create(t.Context(), named("admitted"), trial)
		return err != nil && strings.Contains(err.Error(), value) &&
			copyErr == nil && strings.Contains(copied.Data["copied"], value)
	})
	copied, err := maps.Create(t.Context(), named("admitted"), metav1.CreateOptions{})
	if err != nil || !strings.Contains(copied.Data["copied"], value) {
		t.Fatalf("the policy copies nothing: %v, %v", copied, err)
	}
	after(t, c, namespace)
	all, err := list(t, c.Dynamic, namespace, "request.resource=configmaps")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range all {
		text, err := json.Marshal(d.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), value) {
			t.Errorf("a decision shows the value: %s", text)
		}
		for _, policy := range []string{"copies-a-secret", "tells-a-secret", "warns-of-a-secret"} {
			if strings.Contains(string(text), policy) {
				seen[policy] = true
			}
		}
	}
	if len(seen) != 3 || len(all) < 2 {
		t.Errorf("%d decisions tell of %v", len(all), seen)
	}
}

// A policy about Secrets may quote them in its messages. The writer gets the message, whatever the operation. A viewer
// of decisions, who may not read the Secret, gets none of it.
func TestPoliciesAboutSecrets(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	const plain = "incorrect-horse-battery-staple"
	value := base64.StdEncoding.EncodeToString([]byte(plain)) // as policies see it
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": plain}}
	}
	secrets := c.Client.CoreV1().Secrets(namespace)
	if _, err := secrets.Create(t.Context(), secret("old"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, manifest := range []string{`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: quotes-secrets}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + namespace + `}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets], operations: [CREATE, UPDATE, DELETE]},
      {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  matchConditions: [{name: beside, expression: "request.resource.resource == 'secrets' || request.name == 'beside'"}]
  validations:
  - {expression: 'false', messageExpression: '"no: " + string((object == null ? oldObject : object).data.password)'}
`, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: quotes-secrets},
  spec: {policyName: quotes-secrets, validationActions: [Deny]}}`} {
		object := servertest.Parsed(t, manifest)
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		if _, err := c.Dynamic.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Dynamic.Resource(resource).Delete(context.Background(), object.GetName(),
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	servertest.Eventually(t, "the policy in force", func() bool {
		_, err := secrets.Create(t.Context(), secret("new"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	_, created := secrets.Create(t.Context(), secret("new"), metav1.CreateOptions{})
	_, updated := secrets.Update(t.Context(), secret("old"), metav1.UpdateOptions{})
	deleted := secrets.Delete(t.Context(), "old", metav1.DeleteOptions{})
	for operation, err := range map[string]error{"CREATE": created, "UPDATE": updated, "DELETE": deleted} {
		if err == nil || !strings.Contains(err.Error(), "no: "+value) {
			t.Errorf("%s: the writer is told %v", operation, err)
		}
	}
	_, err := c.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "beside"}, Data: map[string]string{"password": "shown"}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "no: shown") {
		t.Errorf("the writer of a ConfigMap is told %v", err)
	}
	after(t, c, namespace)
	beside, err := list(t, c.Dynamic, namespace, "request.resource=configmaps")
	if err != nil || !slices.ContainsFunc(beside, func(d unstructured.Unstructured) bool {
		return strings.Contains(nestedString(d.Object, "message"), "no: shown")
	}) {
		t.Errorf("no decision shows the message about a ConfigMap: %v, %v", err, beside)
	}
	all, err := list(t, c.Dynamic, namespace, "request.resource=secrets")
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]bool{}
	for _, d := range all {
		text, err := json.Marshal(d.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), value) || strings.Contains(string(text), plain) {
			t.Errorf("a decision shows the value: %s", text)
		}
		if nestedString(d.Object, "message") == "(not shown: the object is a Secret)" {
			refused[nestedString(d.Object, "request", "operation")] = true
		}
	}
	if len(refused) != 3 {
		t.Errorf("the decisions are refusals of %v, want those of all operations", refused)
	}
}
