// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
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

// The answer of a write of a quota is what is stored, so the client can go on with it. A status that it writes
// counts if nothing else counts: on a kube-apiserver, without the quota controller, without the plugin.
func TestAnswersAreStored(t *testing.T) {
	keep := gatehousetest.WithConfig(func(c *server.Config) {
		c.API.KeepQuotaStatus = server.NewKubeAPIServerConfig(nil).API.KeepQuotaStatus
		c.Controllers = server.NewKubeAPIServerConfig(nil).Controllers
	})
	for name, test := range map[string]struct {
		option gatehousetest.Option
		// created is the usage in the answer of a create, written after it was written as 2 of 2, charged after
		// that when a client has tried to create a second secret.
		created, written, charged string
	}{
		"by default":          {gatehousetest.WithConfig(func(*server.Config) {}), "1", "1", "2"},
		"as a kube-apiserver": {keep, "1", "2", "2"},
		"without the quota controller": {gatehousetest.WithControllers("*", "-"+names.ResourceQuotaController), "1", "2",
			"2"},
		"without the plugin": {gatehousetest.WithConfig(func(c *server.Config) {
			c.Admission.Disable = []string{"ResourceQuota"}
			c.Controllers = server.NewKubeAPIServerConfig(nil).Controllers
		}), "none", "2", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			const namespace = "written"
			client := clientOf(gatehousetest.Start(t, test.option))
			namespaceWith(t, client, namespace, 0)
			quotas, secrets := client.CoreV1().ResourceQuotas(namespace), client.CoreV1().Secrets(namespace)
			create := func(name string) error {
				_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, createOptions)
				return err
			}
			if err := create("one"); err != nil {
				t.Fatal(err)
			}
			expect := func(when string, answer *corev1.ResourceQuota, used string) {
				t.Helper()
				stored, err := quotas.Get(t.Context(), "q", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if !apiequality.Semantic.DeepEqual(stored, answer) {
					t.Errorf("%s: the answer is %+v, stored is %+v", when, answer, stored)
				}
				got := "none"
				if amount, ok := stored.Status.Used["secrets"]; ok {
					got = amount.String()
				}
				if got != used {
					t.Errorf("%s: %s are used, want %s", when, got, used)
				}
			}
			q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
				Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"secrets": resource.MustParse("2")}}}, createOptions)
			if err != nil {
				t.Fatal(err)
			}
			expect("created", q, test.created)
			q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: corev1.ResourceList{"secrets": resource.MustParse("2")}}
			if q, err = quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			expect("its status written", q, test.written)
			q.Labels = map[string]string{"a": "b"}
			if q, err = quotas.Update(t.Context(), q, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			expect("a label written", q, test.written)
			if err := create("two"); apierrors.IsForbidden(err) != (test.written == "2" && test.created != "none") {
				t.Errorf("the second secret: %v", err)
			}
			if q, err = quotas.Get(t.Context(), "q", metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			expect("at the end", q, test.charged)
		})
	}
}
