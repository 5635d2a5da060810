// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gatehouse.dev/gatehousetest"
)

var greeting = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "greeting", Namespace: "default"},
	Data: map[string]string{"text": "hello"}}

// client-go's clientset.
func ExampleStart_clientGo() {
	_ = func(t *testing.T) { // func TestConfigMaps
		srv := gatehousetest.Start(t)
		clients := kubernetes.NewForConfigOrDie(srv.Config)
		if _, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), &greeting,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// controller-runtime's client, as of a manager: manager.New takes srv.Config, too.
func ExampleStart_controllerRuntime() {
	_ = func(t *testing.T) { // func TestConfigMaps
		srv := gatehousetest.Start(t)
		c, err := client.New(srv.Config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), greeting.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
}

// The dynamic client, for kinds without Go types.
func ExampleServer_CRDs() {
	_ = func(t *testing.T) { // func TestShops
		srv := gatehousetest.Start(t)
		if err := srv.CRDs(t.Context(), "../config/crd"); err != nil {
			t.Fatal(err)
		}
		shops := dynamic.NewForConfigOrDie(srv.Config).Resource(schema.GroupVersionResource{
			Group: "example.com", Version: "v1", Resource: "shops"})
		if _, err := shops.Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Shop", "metadata": map[string]any{"name": "corner"},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// One server for all tests of a package, each of which leaves nothing behind.
func ExampleMain() {
	var srv *gatehousetest.Server
	var before *gatehousetest.Checkpoint
	_ = func(m *testing.M) int { // func TestMain, which ends with os.Exit
		return gatehousetest.Main(m, func(s *gatehousetest.Server) (err error) {
			srv = s
			if err := srv.CRDs(context.Background(), "../config/crd"); err != nil {
				return err
			}
			before, err = srv.Checkpoint(context.Background())
			return err
		})
	}
	_ = func(t *testing.T) { // func TestSomething
		t.Cleanup(func() {
			if err := before.Reset(context.Background()); err != nil {
				t.Error(err)
			}
		})
		_ = kubernetes.NewForConfigOrDie(srv.Config)
	}
}
