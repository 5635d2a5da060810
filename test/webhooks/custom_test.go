// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

// widgets are a custom resource in two versions, with a scale.
func widgets(t *testing.T) (v1, v2 schema.GroupVersionResource) {
	t.Helper()
	schemaOf := func(text string) *apiextensionsv1.CustomResourceValidation {
		return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: new(
			decoded[apiextensionsv1.JSONSchemaProps](t, []byte(text)))}
	}
	const properties = `{"type":"object","properties":{"spec":{"type":"object",` +
		`"properties":{"size":{"type":"integer"},"color":{"type":"string","default":"gray"}}}}}`
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true, Schema: schemaOf(properties), Subresources: scalable},
				{Name: "v2", Served: true, Schema: schemaOf(properties), Subresources: scalable},
			},
		},
	}
	crds := apiextensions.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
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
	servertest.Eventually(t, "the custom resource to be served", func() bool {
		got, err := crds.Get(t.Context(), crd.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, c := range got.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				_, err := dynamicClient.Resource(gvr("v2")).List(t.Context(), metav1.ListOptions{})
				return err == nil
			}
		}
		return false
	})
	return gvr("v1"), gvr("v2")
}

var scalable = &apiextensionsv1.CustomResourceSubresources{
	Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
	Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size",
		StatusReplicasPath: ".status.size"},
}

func gvr(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}
}

func newWidget(version, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"size": int64(1)},
	}}
}

// Custom resources are sent to webhooks like others: with defaults, in the version of the rule, on
// every operation.
func TestCustomResources(t *testing.T) {
	v1, v2 := widgets(t)
	ns := namespace(t)
	m := newBackend(t, patch(`[{"op":"replace","path":"/spec/size","value":7},{"op":"remove","path":"/spec/color"}]`))
	v := newBackend(t, allow)
	mutating(t, ns, m, nil, rule("example.com", "v1", "widgets", "CREATE", "UPDATE"))
	validating(t, ns, v, nil, rule("example.com", "v1", "*/*"))

	for i, resource := range []schema.GroupVersionResource{v1, v2} {
		name := "w" + resource.Version
		got, err := dynamicClient.Resource(resource).Namespace(ns).Create(t.Context(),
			newWidget(resource.Version, name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size")
		color, _, _ := unstructured.NestedString(got.Object, "spec", "color")
		if size != 7 || color != "gray" || got.GetAPIVersion() != "example.com/"+resource.Version {
			t.Errorf("sent as %s, the widget is %v", resource.Version, got.Object)
		}
		for _, b := range []*backend{m, v} {
			asked := b.asked()[i]
			if asked.Kind.Version != "v1" || asked.Resource.Version != "v1" ||
				asked.RequestResource.Version != resource.Version || asked.Name != name {
				t.Errorf("the webhook was asked %+v", asked)
			}
			if seen := decoded[map[string]any](t, asked.Object.Raw); seen["apiVersion"] != "example.com/v1" ||
				seen["kind"] != "Widget" || seen["spec"].(map[string]any)["color"] != "gray" {
				t.Errorf("the webhook was sent %s", asked.Object.Raw)
			}
		}
	}

	if _, err := dynamicClient.Resource(v2).Namespace(ns).Patch(t.Context(), "wv1", types.MergePatchType,
		[]byte(`{"spec":{"size":3}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	if err := dynamicClient.Resource(v2).Namespace(ns).Delete(t.Context(), "wv2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	all := v.asked()
	scaled, deleted := all[len(all)-2], all[len(all)-1]
	if scaled.Operation != "UPDATE" || scaled.SubResource != "scale" || scaled.Kind.Kind != "Scale" ||
		scaled.Resource.Version != "v1" || decoded[map[string]any](t, scaled.Object.Raw)["kind"] != "Scale" {
		t.Errorf("about a scale the webhook was asked %+v, %s", scaled, scaled.Object.Raw)
	}
	if seen := decoded[map[string]any](t, deleted.OldObject.Raw); deleted.Operation != "DELETE" ||
		deleted.RequestResource.Version != "v2" || seen["apiVersion"] != "example.com/v1" {
		t.Errorf("about a deletion the webhook was asked %+v, %s", deleted, deleted.OldObject.Raw)
	}
}
