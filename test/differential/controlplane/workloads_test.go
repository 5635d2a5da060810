// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testAddons waits for what kubeadm installs: cluster DNS, and kube-proxy on each node.
func testAddons(t *testing.T, c *cluster) {
	await(t, func(ctx context.Context) error { return c.rolledOut(ctx, "kube-system", "coredns") })
	await(t, func(ctx context.Context) error {
		proxy, err := c.client.AppsV1().DaemonSets("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{})
		if want := int32(len(workers) + 1); err == nil && proxy.Status.NumberReady != want {
			err = fmt.Errorf("kube-proxy is ready on %d nodes, want %d", proxy.Status.NumberReady, want)
		}
		return err
	})
}

func testDeployment(t *testing.T, c *cluster) {
	c.deploy(t, "web", 6)
	pods, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, pod := range pods.Items {
		if !slices.Contains(nodes, pod.Spec.NodeName) {
			nodes = append(nodes, pod.Spec.NodeName)
		}
		if got := pod.Spec.Containers[0].ImagePullPolicy; got != corev1.PullAlways {
			t.Errorf("%s has the pull policy %s, want Always, as AlwaysPullImages sets it", pod.Name, got)
		}
	}
	slices.Sort(nodes)
	if !slices.Equal(nodes, workers) { // the other node has the control plane's taint
		t.Errorf("6 pods are on the nodes %v, want all of %v", nodes, workers)
	}
	c.roll(t, "web")
}

// deploy creates a Deployment, and returns when it is available.
func (c *cluster) deploy(t *testing.T, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	if _, err := c.client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, func(ctx context.Context) error { return c.rolledOut(ctx, "default", name) })
}

// roll gives a Deployment another image, and returns when all its pods have it. A Deployment can be
// rolled again and again.
func (c *cluster) roll(t *testing.T, name string) {
	t.Helper()
	await(t, func(ctx context.Context) error { // a controller may have changed it meanwhile
		d, err := c.client.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Spec.Template.Spec.Containers[0].Image += "-next"
		_, err = c.client.AppsV1().Deployments("default").Update(ctx, d, metav1.UpdateOptions{})
		return err
	})
	await(t, func(ctx context.Context) error { return c.rolledOut(ctx, "default", name) })
}

// rolledOut returns an error unless all of a Deployment's pods are available and of its last template.
func (c *cluster) rolledOut(ctx context.Context, namespace, name string) error {
	d, err := c.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != *d.Spec.Replicas ||
		s.UpdatedReplicas != s.Replicas || s.AvailableReplicas != s.Replicas {
		return fmt.Errorf("the Deployment %s wants %d replicas of generation %d, and its status is %+v", name,
			*d.Spec.Replicas, d.Generation, s)
	}
	return nil
}

// testControllers looks at what no controller of Gatehouse does, and at what both can.
func testControllers(t *testing.T, c *cluster) {
	ctx, meta := t.Context(), metav1.ObjectMeta{Name: "data"}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	class := ""
	_, err := c.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{ObjectMeta: meta,
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.CoreV1().PersistentVolumeClaims("default").Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: size},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{ObjectMeta: meta,
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "job", Image: "job:1"}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, func(ctx context.Context) error {
		claim, err := c.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("the claim is %s", claim.Status.Phase)
		}
		return err
	})
	await(t, func(ctx context.Context) error {
		job, err := c.client.BatchV1().Jobs("default").Get(ctx, "data", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("the Job's status is %+v", job.Status)
		}
		return err
	})
	await(t, func(ctx context.Context) error {
		slices, err := c.client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{
			LabelSelector: "kubernetes.io/service-name=web"})
		if err == nil && (len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 6) {
			err = fmt.Errorf("the Service's endpoints are %v", slices.Items)
		}
		return err
	})

	// A Deployment's pods go with it, and a namespace's objects go with the namespace.
	c.createNamespace(t, "passing")
	if _, err := c.client.CoreV1().ConfigMaps("passing").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(c.client.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}),
		c.client.CoreV1().Namespaces().Delete(ctx, "passing", metav1.DeleteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	await(t, func(ctx context.Context) error {
		pods, err := c.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("a Deployment is gone and has %d pods", len(pods.Items))
		}
		return err
	})
	await(t, func(ctx context.Context) error {
		if _, err := c.client.CoreV1().Namespaces().Get(ctx, "passing", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("a namespace that is deleted: %v, want not found", err)
		}
		return nil
	})
}

// testQuota has clients create more pods than a quota permits, and delete some, again and again, while
// kube-controller-manager counts them for the quota's status, too.
func testQuota(t *testing.T, c *cluster) {
	const namespace, hard, clients, rounds = "limited", 5, 4, 10
	c.createNamespace(t, namespace)
	if _, err := c.client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": *resource.NewQuantity(hard, resource.DecimalSI)}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Pods need it, and the controller that makes it may be slow.
	await(t, func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	pods := c.client.CoreV1().Pods(namespace)
	now := int64(0)
	for round := range rounds {
		var wg sync.WaitGroup
		for client := range clients {
			wg.Go(func() {
				for i := range hard {
					_, err := pods.Create(t.Context(), &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d-%d-%d", round, client, i)},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
					}, metav1.CreateOptions{})
					if err != nil && !(apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: pods")) {
						t.Errorf("creating a pod: %v", err)
					}
				}
			})
		}
		wg.Wait()
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != hard {
			t.Fatalf("round %d: there are %d pods with a quota of %d", round, len(list.Items), hard)
		}
		for _, pod := range list.Items[:round%hard+1] {
			if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := hard - ((rounds-1)%hard + 1)
	await(t, func(ctx context.Context) error {
		quota, err := c.client.CoreV1().ResourceQuotas(namespace).Get(ctx, "pods", metav1.GetOptions{})
		if used := quota.Status.Used["pods"]; err == nil && used.Value() != int64(left) {
			err = fmt.Errorf("%s pods are used, want %d", used.String(), left)
		}
		return err
	})
}

func (c *cluster) createNamespace(t *testing.T, name string) {
	t.Helper()
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
