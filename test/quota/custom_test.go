// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// A quota that is written through a server which has had no request for a custom resource yet
// counts what is stored through another one.
func TestCustomResourcesOfAnotherServer(t *testing.T) {
	const namespace = "custom"
	store := servertest.StartEtcd(t)
	a, b := gatehousetest.Start(t, over(store)), gatehousetest.Start(t, over(store))
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
						XPreserveUnknownFields: &preserve},
				}}},
		},
	}
	if _,
		err := apiextensions.NewForConfigOrDie(
		a.Config).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespaceWith(t, clientOf(a), namespace, 0)
	widgets := func(srv *gatehousetest.Server) dynamic.ResourceInterface {
		return dynamic.NewForConfigOrDie(srv.Config).Resource(schema.GroupVersionResource{Group: "example.com",
			Version: "v1", Resource: "widgets"}).Namespace(namespace)
	}
	create := func(srv *gatehousetest.Server, n int) error {
		_, err := widgets(srv).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprint("w", n)},
		}}, metav1.CreateOptions{})
		return err
	}
	servertest.Retry(t, "the custom resource to be served", func() error { return create(a, 0) })
	for n := 1; n < 3; n++ {
		if err := create(a, n); err != nil {
			t.Fatal(err)
		}
	}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/widgets.example.com": resource.MustParse("3")}}}
	if _, err := clientOf(b).CoreV1().ResourceQuotas(namespace).Create(t.Context(), q, createOptions); err != nil {
		t.Fatal(err)
	}
	for _, srv := range []*gatehousetest.Server{b, a} {
		var err error
		servertest.Eventually(t, "the custom resource to be served", func() bool {
			err = create(srv, 3)
			return !apierrors.IsNotFound(err)
		})
		if !exceeded(err) {
			t.Errorf("one more: %v", err)
		}
	}
}
