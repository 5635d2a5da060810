// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
)

// A pod on a node that is deleted with a grace period of centuries is there, and charged, until the
// node says that it isn't. (The sum of such a period overflows, and with it the time of the
// deletion.)
func TestGracePeriodOfCenturies(t *testing.T) {
	const namespace = "centuries"
	client := clientOf(gatehousetest.Start(t))
	namespaceWith(t, client, namespace, 0)
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}}}
	if _, err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), q, createOptions); err != nil {
		t.Fatal(err)
	}
	for _, grace := range []int64{10_000_000_000, 9_223_372_037} {
		p := pod("p")
		p.Spec.NodeName = "n"
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), p, createOptions); err != nil {
			t.Fatal(err)
		}
		if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "p",
			metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod("more"), createOptions); !exceeded(err) {
			t.Errorf("beside a pod with a grace period of %d seconds: %v", grace, err)
		}
		if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
}
