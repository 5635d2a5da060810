// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// web is a Deployment.
func web(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main",
					Image: "registry.example/main:1"}}}}},
	}
}

// The pods of a Deployment, as admission lets them be.
func ExampleWithControllers() {
	_ = func(t *testing.T) { // func TestDeployment
		srv := gatehousetest.Start(t, gatehousetest.WithControllers("workloads"))
		c, err := client.New(srv.Config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), web(3)); err != nil {
			t.Fatal(err)
		}
		// … and then wait for three pods.
	}
}

// What controllers have made of workloads is gone with these after a reset, and stays so.
func TestResetOfWorkloads(t *testing.T) {
	srv := gatehousetest.Start(t, gatehousetest.WithControllers("workloads"))
	admin := connect(t, srv.Config)
	before, err := srv.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods := func() int {
		list := &corev1.PodList{}
		if err := admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	const replicas = 20
	for range 2 {
		if err := admin.Create(t.Context(), web(replicas)); err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, "the Deployment's pods", func() bool { return pods() == replicas })
		if err := before.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A Deployment of another name shows that the controllers are through with the first.
		other := web(0)
		other.Name = "other"
		if err := admin.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, "the Deployment's status", func() bool {
			return admin.Get(t.Context(), client.ObjectKeyFromObject(other), other) == nil &&
				other.Status.ObservedGeneration == other.Generation
		})
		if left := pods(); left != 0 {
			t.Errorf("%d pods are left", left)
		}
		if err := before.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
