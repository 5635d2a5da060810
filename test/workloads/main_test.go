// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workloads_test runs the controllers of workloads, which are off by default, in a real
// server, and sees what becomes of the pods that they make: admission changes them, or refuses
// them. Nothing runs a pod here; the tests say of pods what a kubelet would.
package workloads_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// cluster is the server of all tests. Each keeps to a namespace of its own.
var cluster = sync.OnceValue(func() *servertest.Cluster {
	return servertest.Start(&suite, gatehousetest.WithControllers("workloads"),
		gatehousetest.WithPlugins("AlwaysPullImages"))
})

// create creates the object of a manifest, in YAML.
func create[T any](t *testing.T, by func(context.Context, *T, metav1.CreateOptions) (*T, error),
	manifest string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
		t.Fatal(err)
	}
	created, err := by(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// node makes a node, for the time of the test. It is ready: a new one has a taint until somebody
// takes it off, in Kubernetes the controller of nodes.
func node(t *testing.T, name string) {
	nodes := cluster().Client.CoreV1().Nodes()
	create(t, nodes.Create, `{metadata: {name: `+name+`, labels: {for: `+name+`}}}`)
	if _, err := nodes.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec": {"taints": null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// bind says where a pod runs, as a scheduler would.
func bind(t *testing.T, pod corev1.Pod, node string) corev1.Pod {
	t.Helper()
	pods := cluster().Client.CoreV1().Pods(pod.Namespace)
	if err := pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *bound
}

// awaitPods waits until a namespace has so many pods that aren't being deleted, and returns them.
func awaitPods(t *testing.T, namespace string, count int) (pods []corev1.Pod) {
	t.Helper()
	servertest.Retry(t, fmt.Sprintf("%d pods", count), func() error {
		list, err := cluster().Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if len(pods) != count {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	return pods
}

// report says of a pod what its kubelet would.
func report(t *testing.T, pod corev1.Pod, status corev1.PodStatus) {
	t.Helper()
	pod.Status = status
	if _, err := cluster().Client.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), &pod,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ready is the status of a pod that runs, at an address.
func ready(address string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.Now()}}}
}

// template is a pod of the controllers'.
const template = `{metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: ` +
	`"registry.example/main:1"}]}}`
