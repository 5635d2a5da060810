// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/test/servertest"
)

// bears makes a custom resource with versions v1 and v2, whose spec has these properties in JSON.
func bears(t *testing.T, plural, kind, properties string) {
	t.Helper()
	crds := apiextensions.NewForConfigOrDie(cluster.Config).ApiextensionsV1().CustomResourceDefinitions()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".bears.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "bears.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
		},
	}
	for i, version := range []string{"v1", "v2"} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0, Schema: specOf(t, properties)})
	}
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = crds.Delete(context.Background(), crd.Name, metav1.DeleteOptions{})
		servertest.Eventually(t, "the custom resource to be gone", func() bool {
			_, err := crds.Get(context.Background(), crd.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
	servertest.Retry(t, "the custom resource to be served", func() error {
		_, err := dynamicClient.Resource(bearsOf("v2", plural)).List(t.Context(), metav1.ListOptions{})
		return err
	})
}

func specOf(t *testing.T, properties string) *apiextensionsv1.CustomResourceValidation {
	t.Helper()
	v := &apiextensionsv1.CustomResourceValidation{}
	if err := json.Unmarshal([]byte(`{"openAPIV3Schema": {"type": "object", "properties": {"spec": `+properties+`}}}`),
		v); err != nil {
		t.Fatal(err)
	}
	return v
}

func bearsOf(version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "bears.example.com", Version: version, Resource: plural}
}

func createBear(t *testing.T, ns, version, plural, kind string) (*unstructured.Unstructured, error) {
	t.Helper()
	u := servertest.Parsed(t, fmt.Sprintf("{apiVersion: bears.example.com/%s, kind: %s, metadata: {name: c}, "+
		"spec: {color: brown, paws: [{name: left}]}}", version, kind))
	return dynamicClient.Resource(bearsOf(version, plural)).Namespace(ns).Create(t.Context(), u,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// Custom resources are mutated by their schemas, in the version of the policy, and defaulted after.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#Test_MutatingAdmissionPolicy_CustomResources a84c7c21
func TestMutatingCustomResources(t *testing.T) {
	ns := namespace(t)
	const paws = `"paws": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
		"items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"},
		"claws": {"type": "integer", "default": 5}}}}`
	bears(t, "pandas", "Panda", `{"type": "object", "properties": {"color": {"type": "string"}, `+paws+`,
		"food": {"type": "array", "items": {"type": "string"}}}}`)
	panda := func(name string, m ...string) mutatingPolicy {
		return mutatingPolicy{name: name, group: "bears.example.com", version: "v1", resource: "pandas", mutations: m}
	}
	create(t, ns,
		panda("a", `Object{metadata: Object.metadata{annotations: {"mutated": object.apiVersion}}}`),
		panda("b", `Object{spec: Object.spec{color: "white", paws: [Object.spec.paws{name: "right"}]}}`),
		panda("c", `[JSONPatch{op: "add", path: "/spec/food", value: object.spec.paws.map(p, string(p.claws))}]`))
	for _, version := range []string{"v1", "v2"} {
		// The server's OpenAPI knows a new kind moments after it is served.
		var got *unstructured.Unstructured
		servertest.Retry(t, "the schema to be known", func() (err error) {
			got, err = createBear(t, ns, version, "pandas", "Panda")
			return err
		})
		want := map[string]any{"color": "white", "food": []any{"5", "5"}, "paws": []any{
			map[string]any{"name": "left", "claws": int64(5)}, map[string]any{"name": "right", "claws": int64(5)}}}
		a, _ := json.Marshal(got.Object["spec"])
		b, _ := json.Marshal(want)
		if string(a) != string(b) || !maps.Equal(got.GetAnnotations(),
			map[string]string{"mutated": "bears.example.com/v1"}) ||
			got.GetAPIVersion() != "bears.example.com/"+version {
			t.Errorf("sent as %s it is %v", version, got.Object)
		}
	}
	create(t, ns, panda("d", `Object{spec: Object.spec{food: ["bamboo"]}}`))
	_, err := createBear(t, ns, "v1", "pandas", "Panda")
	if want := "policy '" + ns + "-d' with binding '" + ns + "-d-0' denied request: error applying patch: invalid " +
		"ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.food " +
		"(spec.mutations[1].applyConfiguration.expression)"; err == nil || err.Error() != want {
		t.Errorf("got error  %v\nwant error %s", err, want)
	}
}

// What a schema doesn't know but preserves is one whole; what it doesn't know otherwise can't be
// set. A schema that changes is followed.
func TestMutatingSchemas(t *testing.T) {
	ns := namespace(t)
	bears(t, "grizzlies", "Grizzly", `{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`)
	create(t, ns, mutatingPolicy{name: "a", group: "bears.example.com", resource: "grizzlies", mutations: mutations{
		`Object{spec: Object.spec{den: "deep"}}`}})
	servertest.Retry(t, "the schema to be known", func() error {
		got, err := createBear(t, ns, "v1", "grizzlies", "Grizzly")
		if err == nil && got.Object["spec"].(map[string]any)["den"] != "deep" {
			t.Fatalf("it is %v", got.Object)
		}
		return err
	})
	crds := apiextensions.NewForConfigOrDie(cluster.Config).ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(t.Context(), "grizzlies.bears.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema = specOf(t, `{"type": "object", "properties": {"color": {"type": "string"}}}`)
	}
	if _, err := crds.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "the new schema to be known", func() error {
		_, err := createBear(t, ns, "v1", "grizzlies", "Grizzly")
		if want := "policy '" + ns + "-a' with binding '" + ns +
			"-a-0' denied request: error applying patch: failed to " +
			"convert patch object to typed object: .spec.den: field not declared in schema " +
			"(spec.mutations[1].applyConfiguration.expression)"; err == nil || err.Error() != want {
			return fmt.Errorf("got error  %v\nwant error %s", err, want)
		}
		return nil
	})
}

// Policies and bindings are not subject to policies, lest one make itself irremovable; webhook
// configurations are.
func TestMutatingExempt(t *testing.T) {
	ns := namespace(t)
	fail := admissionregistrationv1.Fail
	policies := client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	bindings := client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	p := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &fail, ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"in": ns}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{"*"},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{"admissionregistration.k8s.io"},
							APIVersions: []string{"*"}, Resources: []string{"*"}}}}},
			},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{annotations: {"mutated": "yes"}}}`}}},
		},
	}
	if _, err := policies.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = policies.Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	if _, err := bindings.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bindings.Delete(context.Background(), ns, metav1.DeleteOptions{}) })

	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	meta := metav1.ObjectMeta{Name: "x" + ns, Labels: map[string]string{"in": ns}}
	servertest.Eventually(t, "webhook configurations to be mutated", func() bool {
		got, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}, dry)
		return err == nil && got.Annotations["mutated"] == "yes"
	})
	second := p.DeepCopy()
	second.ObjectMeta = meta
	got, err := policies.Create(t.Context(), second, dry)
	if err != nil || got.Annotations["mutated"] != "" {
		t.Errorf("%v; a policy has annotations %v", err, got.Annotations)
	}
	b, err := bindings.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta,
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns}}, dry)
	if err != nil || b.Annotations["mutated"] != "" {
		t.Errorf("%v; a binding has annotations %v", err, b.Annotations)
	}
}
