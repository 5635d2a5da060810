// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/webhook/backend"
)

// 32 clients write, with 2,000 webhooks that don't match, four that do, and fifty more under Ignore: with a
// backend each that works, and with dead ones. Both in turn, so that whatever else the machine does
// concerns both alike; the 99th percentiles are compared, after the breakers have opened. What it takes
// without the fifty is told as well.
func BenchmarkDeadWebhooks(b *testing.B) {
	const clients, dead = 32, 50
	server := webhooktest.New(b, webhooktest.Allow())
	webhooks := func(fifty int, address func() string) *plugins {
		others := make([]admissionregistrationv1.MutatingWebhook, 2000)
		for i := range others {
			others[i] = aWebhook(fmt.Sprint("other-", i), server.ClientConfig("/"),
				namespaceSelector(map[string]string{"no": "namespace"}))
		}
		mutating := append(slices.Clone(others), aWebhook("m", server.ClientConfig("/")))
		validating := append(others, aWebhook("v1", server.ClientConfig("/")), aWebhook("v2", server.ClientConfig("/")),
			aWebhook("v3", server.ClientConfig("/")))
		for i := range fifty {
			url := "https://" + address() + "/"
			w := aWebhook(fmt.Sprint("ignored-", i), server.ClientConfig("/"), ignoringFailures)
			w.ClientConfig.URL = &url
			if i%2 == 0 {
				mutating = append(mutating, w)
			} else {
				validating = append(validating, w)
			}
		}
		cluster := plugintest.NewCluster(b, mutatingConfiguration("c", mutating...),
			validatingConfiguration("c", validating...), ns)
		cluster.Env.WebhookBreaker = true
		return buildPlugins(b, nil, cluster)
	}
	write := func(p *plugins) time.Duration {
		ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		pod := benchPod()
		if err := p.Mutating.Admit(ctx, newAttributes(create, pod, nil), interfaces); err != nil {
			b.Error(err)
		}
		if err := p.Validating.Validate(ctx, newAttributes(create, pod, nil), interfaces); err != nil {
			b.Error(err)
		}
		return time.Since(start)
	}
	round := func(p *plugins) []time.Duration {
		took := make([]time.Duration, 10*clients)
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for i := range 10 {
					took[10*c+i] = write(p)
				}
			})
		}
		all.Wait()
		return took
	}
	without := webhooks(0, nil)
	healthy := webhooks(dead, func() string {
		return webhooktest.New(b, webhooktest.Allow(), webhooktest.WithAuthority(server.Authority)).Address()
	})
	failing := webhooks(dead, func() string { return webhooktest.Refusing(b) })
	for len(backend.NotCalled()) < dead {
		write(failing)
		time.Sleep(100 * time.Millisecond)
	}
	round(healthy)
	round(failing)
	var noneTook, healthyTook, deadTook []time.Duration
	for b.Loop() {
		noneTook = append(noneTook, round(without)...)
		healthyTook = append(healthyTook, round(healthy)...)
		deadTook = append(deadTook, round(failing)...)
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)*99/100].Microseconds())
	}
	b.ReportMetric(p99(noneTook), "µs/p99-without")
	b.ReportMetric(p99(healthyTook), "µs/p99-healthy")
	b.ReportMetric(p99(deadTook), "µs/p99-dead")
	b.ReportMetric(p99(deadTook)/p99(healthyTook), "dead/healthy")
	b.ReportMetric(p99(deadTook)/p99(noneTook), "dead/without")
}
