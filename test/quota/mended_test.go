// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// What is wrong in etcd, which no write through this server makes, is found by the quota
// controller, time and again.
func TestMended(t *testing.T) {
	srv := gatehousetest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.Controllers.QuotaSyncPeriod = 100 * time.Millisecond }))
	client := clientOf(srv)
	const namespace = "mended"
	namespaceWith(t, client, namespace, 1)
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod("p"), createOptions); err != nil {
		t.Fatal(err)
	}
	quotas := client.CoreV1().ResourceQuotas(namespace)
	for _, used := range []string{"7", "0", "3"} {
		q, err := quotas.Get(t.Context(), "q0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		q.ResourceVersion, q.Status.Used["pods"] = "", resource.MustParse(used)
		data, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := srv.Etcd.Client().KV.Put(t.Context(), "/registry/resourcequotas/"+namespace+"/q0",
			string(data)); err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, "the quota to be mended", func() bool {
			q, err := quotas.Get(t.Context(), "q0", metav1.GetOptions{})
			return err == nil && q.Status.Used.Pods().Value() == 1
		})
	}
}
