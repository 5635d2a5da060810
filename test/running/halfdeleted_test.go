// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// A pod is deleted in two steps. What is stored between them is what a server leaves that is killed
// there; the next one finishes it.
func TestHalfDeletedPods(t *testing.T) {
	t.Parallel()
	first := gatehousetest.Start(t)
	c := servertest.Connect(first)
	namespace := c.Namespace(t, nil)
	pod, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.ResourceVersion, pod.DeletionTimestamp = "", &metav1.Time{Time: time.Now()}
	pod.DeletionGracePeriodSeconds = new(int64)
	data, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), pod)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Etcd.Client().KV.Put(t.Context(), "/registry/pods/"+namespace+"/p", string(data)); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	c = servertest.Connect(gatehousetest.StartIn(t, first.DataDir))
	servertest.Eventually(t, "the pod to be gone", func() bool {
		_, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), "p", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
