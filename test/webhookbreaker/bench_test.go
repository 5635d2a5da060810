// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookbreaker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// 32 clients write to a server with 2,000 webhooks for other namespaces and fifty under Ignore that are asked.
// The fifty are up, then dead, then up again, and so on; the 99th percentiles of the writes are compared.
func BenchmarkDeadWebhooks(b *testing.B) {
	const clients, writes, dead = 32, 20, 50
	ns := cluster.Namespace(b, nil)
	authority := webhooktest.NewAuthority(b)
	var backends []*webhooktest.Server
	api := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	// One configuration can't have them all: an object has at most 1.5 MB.
	configure := func(webhooks int, namespace string, to func(i int) *webhooktest.Server) {
		c := configuration("bench", namespace, admissionregistrationv1.WebhookClientConfig{}, admissionregistrationv1.Ignore)
		one := c.Webhooks[0]
		c.Webhooks = nil
		for i := range webhooks {
			w := *one.DeepCopy()
			w.Name, w.ClientConfig = fmt.Sprintf("w%d.example.com", i), to(i).ClientConfig("/")
			c.Webhooks = append(c.Webhooks, w)
		}
		made, err := api.Create(b.Context(), c, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = api.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	}
	for range dead {
		backends = append(backends, webhooktest.New(b, webhooktest.Allow(), webhooktest.WithAuthority(authority)))
	}
	for range 5 {
		configure(400, "elsewhere", func(int) *webhooktest.Server { return backends[0] })
	}
	configure(dead, ns, func(i int) *webhooktest.Server { return backends[i] })
	var own [clients]kubernetes.Interface // each with a connection of its own
	for c := range own {
		own[c] = kubernetes.NewForConfigOrDie(servertest.Quick(cluster.Config))
	}
	round := func() []time.Duration {
		took := make([]time.Duration, clients*writes)
		var writing sync.WaitGroup
		for c := range clients {
			writing.Go(func() {
				for i := range writes {
					begin := time.Now()
					if _, err := own[c].CoreV1().ConfigMaps(ns).Create(b.Context(),
						&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{}); err != nil {
						b.Error(err)
					}
					took[c*writes+i] = time.Since(begin)
				}
			})
		}
		writing.Wait()
		return took
	}
	turn := func(what func(*webhooktest.Server), out int) {
		for _, backend := range backends {
			what(backend)
		}
		servertest.Eventually(b, fmt.Sprintf("%d backends not to be called", out), func() bool {
			_ = create(b.Context(), ns, "probe")
			return len(notCalled(b)) == out
		})
	}
	servertest.Eventually(b, "the webhooks to be asked", func() bool {
		_ = create(b.Context(), ns, "probe")
		return backends[dead-1].Calls() > 0
	})
	round()
	var healthy, failing []time.Duration
	for b.Loop() {
		healthy = append(healthy, round()...)
		turn((*webhooktest.Server).Stop, dead)
		failing = append(failing, round()...)
		turn((*webhooktest.Server).Restart, 0)
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)*99/100].Microseconds())
	}
	b.ReportMetric(p99(healthy), "µs/p99-healthy")
	b.ReportMetric(p99(failing), "µs/p99-dead")
	b.ReportMetric(p99(failing)/p99(healthy), "dead/healthy")
}
