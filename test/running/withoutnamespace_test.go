// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// An object may be left when its namespace is gone from the store. It can be updated and deleted, so
// that its finalizers can be taken off, and none can be created beside it.
//
// Source: k8s.io/kubernetes/test/integration/namespace/ns_conditions_test.go#TestUpdateResourceInDeletedNamespace ab9655a2
func TestObjectsWithoutTheirNamespace(t *testing.T) {
	t.Parallel()
	server := gatehousetest.Start(t)
	c := servertest.Connect(server)
	namespace := c.Namespace(t, nil)
	objects := c.Client.CoreV1().ConfigMaps(namespace)
	left, err := objects.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left",
		Finalizers: []string{"example.com/held"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Etcd.Client().KV.Delete(t.Context(), "/registry/namespaces/"+namespace); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the namespace to be gone", func() bool {
		_, err := objects.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-"}},
			metav1.CreateOptions{})
		return apierrors.IsNotFound(err)
	})
	if err := objects.Delete(t.Context(), "left", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting what is left: %v", err)
	}
	left.ResourceVersion, left.Finalizers = "", nil
	if _, err := objects.Update(t.Context(), left, metav1.UpdateOptions{}); err != nil {
		t.Errorf("updating what is left: %v", err)
	}
	if _, err := objects.Get(t.Context(), "left", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what is left without a finalizer is still there: %v", err)
	}
}
