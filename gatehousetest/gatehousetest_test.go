// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
)

// Servers in one process know nothing of each other.
func TestSeveralAtOnce(t *testing.T) {
	const servers = 3
	var clients []kubernetes.Interface
	for range servers {
		clients = append(clients, kubernetes.NewForConfigOrDie(gatehousetest.Start(t).Config))
	}
	for i, client := range clients {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("only-in-%d", i)}}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, client := range clients {
		list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, namespace := range list.Items {
			found = append(found, namespace.Name)
		}
		want := fmt.Sprint([]string{"default", "kube-node-lease", "kube-public", "kube-system",
			fmt.Sprintf("only-in-%d", i)})
		if got := fmt.Sprint(found); got != want {
			t.Errorf("namespaces of server %d are %s, want %s", i, got, want)
		}
	}
}

// A server that is stopped and started again has everything again.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first := gatehousetest.StartIn(t, dir)
	client := kubernetes.NewForConfigOrDie(first.Config)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "b"}}
	made, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Stop()

	client = kubernetes.NewForConfigOrDie(gatehousetest.StartIn(t, dir).Config)
	found, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found.UID != made.UID || found.ResourceVersion != made.ResourceVersion {
		t.Errorf("found %s at %s, made %s at %s", found.UID, found.ResourceVersion, made.UID, made.ResourceVersion)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		gatehousetest.Start(b).Stop()
	}
}
