// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gatehouse.dev/test/servertest"
)

// Pods go with their owners, which wait for them in the foreground, and are left without owner
// where that is asked for; and what pods own goes with them.
func TestGarbageCollection(t *testing.T) {
	c := clusterWith(simple...)
	for policy, stays := range map[metav1.DeletionPropagation]bool{
		metav1.DeletePropagationBackground: false,
		metav1.DeletePropagationForeground: false,
		metav1.DeletePropagationOrphan:     true,
	} {
		t.Run(string(policy), func(t *testing.T) {
			core, ns := c.Client.CoreV1(), c.Namespace(t, nil)
			maps, pods := core.ConfigMaps(ns), core.Pods(ns)
			owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}},
				metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			pod := servertest.Pod("web")
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner",
				UID: owner.UID, BlockOwnerDeletion: ptr.To(true)}}
			if pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: pod.UID}}}}
			if _, err := maps.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			goes := func(name string) {
				servertest.Eventually(t, "the ConfigMap "+name+" to be gone", func() bool {
					_, err := maps.Get(t.Context(), name, metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				})
			}
			goes("owner")
			if stays {
				servertest.Eventually(t, "the pod to have no owner", func() bool {
					got, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
					return err == nil && len(got.OwnerReferences) == 0
				})
				return
			}
			servertest.Eventually(t, "the pod to be gone", func() bool {
				_, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			goes("owned")
		})
	}
}
