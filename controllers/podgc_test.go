// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// Which pods are left after five minutes, which pass at once in the bubble.
func TestPodCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := metav1.Now()
		pod := func(name, node string, deleted bool, phase corev1.PodPhase) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"},
				Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
			if deleted {
				p.DeletionTimestamp = &now
			}
			return p
		}
		node := func(name string, taints ...corev1.Taint) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
		}
		client := fake.NewClientset(node("there"), node("lost", corev1.Taint{Key: corev1.TaintNodeOutOfService}),
			pod("half-deleted", "", true, corev1.PodPending),
			pod("half-deleted-and-done", "", true, corev1.PodSucceeded),
			pod("of-a-missing-node", "nowhere", true, corev1.PodRunning),
			pod("of-a-lost-node", "lost", true, corev1.PodRunning),
			pod("ends", "there", true, corev1.PodRunning),
			pod("waits", "", false, corev1.PodPending),
			pod("elsewhere", "nowhere", false, corev1.PodRunning),
			pod("on-a-lost-node", "lost", false, corev1.PodRunning),
			pod("done", "nowhere", false, corev1.PodSucceeded))
		factory := informers.NewSharedInformerFactory(client, 0)
		core := factory.Core().V1()
		c := &podCollector{client: client, pods: core.Pods().Lister(), nodes: core.Nodes().Lister(),
			missing: map[string]time.Time{}}
		ctx, stop := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		factory.WaitForCacheSync(ctx.Done())
		left := func() (names []string) {
			list, err := client.CoreV1().Pods("ns").List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			slices.Sort(names)
			return names
		}
		done := make(chan struct{})
		go func() {
			wait.UntilWithContext(ctx, c.collect, podCheck)
			close(done)
		}()
		always := []string{"done", "elsewhere", "ends", "on-a-lost-node", "waits"}
		synctest.Wait()
		if got, want := left(), append([]string{"of-a-missing-node"}, always...); !slices.Equal(slices.Sorted(
			slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("at once, left are %q, want %q", got, want)
		}
		time.Sleep(5 * time.Minute)
		if got := left(); !slices.Equal(got, always) {
			t.Errorf("left are %q, want %q", got, always)
		}
		stop()
		<-done
		factory.Shutdown()
	})
}
