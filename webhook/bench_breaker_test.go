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

// 32 clients write, with four healthy webhooks and 2,000 that don't match, without and with fifty that
// match, are ignored and have dead backends. Both in turn, so that whatever else the machine does
// concerns both alike; the 99th percentiles are compared, after the breakers have opened.
func BenchmarkDeadWebhooks(b *testing.B) {
	const clients, dead = 32, 50
	server := webhooktest.New(b, webhooktest.Allow())
	webhooks := func(dead int) *plugins {
		others := make([]admissionregistrationv1.MutatingWebhook, 2000)
		for i := range others {
			others[i] = aWebhook(fmt.Sprint("other-", i), server.ClientConfig("/"),
				namespaceSelector(map[string]string{"no": "namespace"}))
		}
		mutating := append(slices.Clone(others), aWebhook("m", server.ClientConfig("/")))
		validating := append(others, aWebhook("v1", server.ClientConfig("/")), aWebhook("v2", server.ClientConfig("/")),
			aWebhook("v3", server.ClientConfig("/")))
		for i := range dead {
			url := "https://" + webhooktest.Refusing(b) + "/"
			w := aWebhook(fmt.Sprint("dead-", i), server.ClientConfig("/"), ignoringFailures)
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
	healthy, failing := webhooks(0), webhooks(dead)
	for len(backend.NotCalled()) < dead {
		write(failing)
		time.Sleep(100 * time.Millisecond)
	}
	round(healthy)
	round(failing)
	var without, with []time.Duration
	for b.Loop() {
		without = append(without, round(healthy)...)
		with = append(with, round(failing)...)
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)*99/100].Microseconds())
	}
	b.ReportMetric(p99(without), "µs/p99-healthy")
	b.ReportMetric(p99(with), "µs/p99-dead")
	b.ReportMetric(p99(with)/p99(without), "ratio")
}
