// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/gatehousetest"
)

// Whatever somebody writes of a quota is an event of its own for every watch, as it was answered,
// though charges come right before and after it.
//
// Source: "should apply changes to a resourcequota status" in
// k8s.io/kubernetes/test/e2e/apimachinery/resource_quota.go.
func TestWritesAmongCharges(t *testing.T) {
	const namespace, writes = "written", 20
	client := clientOf(gatehousetest.Start(t))
	namespaceWith(t, client, namespace, 0)
	quotas := client.CoreV1().ResourceQuotas(namespace)
	q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1000")}}}, createOptions)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := quotas.Watch(t.Context(), metav1.ListOptions{ResourceVersion: q.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	charge := func(name string, i int) {
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod(fmt.Sprint(name, i)),
			createOptions); err != nil {
			t.Fatal(err)
		}
	}
	written := map[string]string{} // the hard limits in the status, by resource version
	for i := range writes {
		charge("before", i)
		patch, subresource := fmt.Sprintf(`{"status":{"hard":{"pods":"%d"}}}`, i+1), []string{"status"}
		if i%2 == 1 {
			patch, subresource = fmt.Sprintf(`{"metadata":{"labels":{"write":"%d"}}}`, i), nil
		}
		answer, err := quotas.Patch(t.Context(), "q", types.MergePatchType, []byte(patch), metav1.PatchOptions{},
			subresource...)
		if err != nil {
			t.Fatal(err)
		}
		written[answer.ResourceVersion] = answer.Status.Hard.Pods().String()
		charge("after", i)
	}
	for len(written) > 0 {
		select {
		case event := <-watch.ResultChan():
			shown := event.Object.(*corev1.ResourceQuota)
			hard, ok := written[shown.ResourceVersion]
			if ok && shown.Status.Hard.Pods().String() != hard {
				t.Errorf("the watch shows the hard limit %s, the answer %s", shown.Status.Hard.Pods(), hard)
			}
			delete(written, shown.ResourceVersion)
			if shown.Status.Used.Pods().Value() == 2*writes && len(written) > 0 {
				t.Fatalf("%d of %d writes were not shown", len(written), writes)
			}
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// An update of a Service's status that creates it needs room as any creation does.
func TestServicesThatTheirStatusCreates(t *testing.T) {
	const namespace = "served"
	client := clientOf(gatehousetest.Start(t))
	namespaceWith(t, client, namespace, 0)
	if _, err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services": resource.MustParse("1")}}}, createOptions); err != nil {
		t.Fatal(err)
	}
	services := client.CoreV1().Services(namespace)
	write := func(name string) (*corev1.Service, error) {
		return services.UpdateStatus(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.UpdateOptions{})
	}
	one, err := write("one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write("two"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: q, requested: services=1") {
		t.Errorf("a Service beyond the quota: %v", err)
	}
	if _, err := services.Get(t.Context(), "two", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is stored: %v", err)
	}
	one.Status.Conditions = []metav1.Condition{{Type: "Full", Status: metav1.ConditionTrue, Reason: "Full", LastTransitionTime: metav1.Now()}}
	if _, err := services.UpdateStatus(t.Context(), one, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the status of a Service in a full namespace: %v", err)
	}
	q, err := client.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if used := q.Status.Used[corev1.ResourceServices]; used.Value() != 1 {
		t.Errorf("the quota counts %s", used.String())
	}
}
