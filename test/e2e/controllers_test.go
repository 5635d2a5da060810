// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A controller that isn't allowed what it needs doesn't end the server, which says which one and
// why, and tries again: here nobody but administrators may ask what there is to delete.
func TestControllerThatCannotWork(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	srv := serve(t, "--data-dir="+dir)
	bindings := srv.client.RbacV1().ClusterRoleBindings()
	discovery, err := bindings.Get(t.Context(), "system:discovery", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authenticated := discovery.Subjects
	discovery.Annotations[rbacv1.AutoUpdateAnnotationKey], discovery.Subjects = "false", nil
	if _, err := bindings.Update(t.Context(), discovery, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	srv.stop(t)

	srv = serve(t, "--data-dir="+dir)
	for _, name := range []string{"namespace-controller", "garbage-collector-controller"} {
		if _, err := srv.await(srv.stderr, `"Controller can't work.*err=.*forbidden.* controller="`+name+`"`,
			startTimeout); err != nil {
			t.Error(err)
		}
	}
	if err := createAndDeleteNamespace(t.Context(), srv.client, "stays"); err != nil {
		t.Fatal(err)
	}
	bindings = srv.client.RbacV1().ClusterRoleBindings()
	if discovery, err = bindings.Get(t.Context(), "system:discovery", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	discovery.Subjects = authenticated
	if _, err := bindings.Update(t.Context(), discovery, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, srv.client, "stays")
	srv.stop(t)
}

// Controllers that run apart go by feature gates of their own, which should be the server's. Here
// they aren't: without the gate of what pods request as a whole, what the server has counted looks
// wrong to the controller, which has it count again.
func TestControllersGates(t *testing.T) {
	t.Parallel()
	srv := serve(t, "--controllers=")
	pod := newPod("p", "")
	pod.Spec.Resources = &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	const limited = corev1.ResourceRequestsCPU
	limit := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{limited: resource.MustParse("9")}}}
	quotas := srv.client.CoreV1().ResourceQuotas("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := srv.client.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	if err == nil {
		_, err = srv.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = quotas.Create(t.Context(), limit, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var counted *corev1.ResourceQuota
	eventually(t, startTimeout, func(ctx context.Context) (err error) {
		if counted, err = quotas.Get(ctx, "q", metav1.GetOptions{}); err != nil {
			return err
		}
		if used := counted.Status.Used[limited]; used.String() != "2" {
			return fmt.Errorf("used are %s, want 2", used.String())
		}
		return nil
	})

	again, err := quotas.Watch(t.Context(), metav1.ListOptions{ResourceVersion: counted.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	apart := startFor(t, exec.Command(binaries.gatehouse, "controllers", "--kubeconfig="+srv.kubeconfig,
		"--feature-gates=PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false,"+
			"PodLevelResourcesFixDefaulting=false,PodLevelResourcesFixKubeletQOSClass=false"))
	select {
	case event := <-again.ResultChan():
		if event.Type != watch.Modified {
			t.Errorf("got %v of %v", event.Type, event.Object)
		}
	case <-time.After(startTimeout):
		t.Errorf("in %s the controller has found nothing wrong", startTimeout)
	}
	apart.stop(t)
	srv.stop(t)
}
