// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

func usualPod() *corev1.Pod {
	return newPod(with(box("app", "cpu=100m,memory=128Mi", "cpu=200m,memory=256Mi")))
}

func largePod() *corev1.Pod {
	return newPod(
		withInit(box("init", "cpu=1,memory=1Gi", "cpu=1,memory=1Gi"),
			sidecar(box("proxy", "cpu=50m,memory=64Mi", "cpu=1,memory=1Gi"))),
		with(box("app", "cpu=2,memory=4Gi,nvidia.com/gpu=1,hugepages-2Mi=64Mi",
			"cpu=4,memory=8Gi,nvidia.com/gpu=1,hugepages-2Mi=64Mi"),
			box("log", "cpu=100m,memory=128Mi,ephemeral-storage=1Gi", "cpu=200m,memory=256Mi,ephemeral-storage=2Gi")),
		overhead("cpu=250m,memory=120Mi"))
}

func BenchmarkCostOf(b *testing.B) {
	for name, pod := range map[string]*corev1.Pod{"pod": usualPod(), "pod=large": largePod()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = CostOf(pods, pod)
			}
		})
	}
	b.Run("configmap", func(b *testing.B) {
		b.ReportAllocs()
		object := marker("c")
		for b.Loop() {
			_, _ = CostOf(configMaps, object)
		}
	})
	b.Run("resourceclaim", func(b *testing.B) {
		b.ReportAllocs()
		claim := &resourcev1.ResourceClaim{
			Spec: resourcev1.ResourceClaimSpec{
				Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{exactly("gpu", 2)}},
			},
		}
		for b.Loop() {
			_, _ = CostOf(resourceClaims, claim)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	for _, n := range []int{1, 2, 10} {
		b.Run(fmt.Sprintf("quotas=%d", n), func(b *testing.B) {
			var quotas []*corev1.ResourceQuota
			for i := range n {
				quotas = append(quotas, newQuota(fmt.Sprintf("q%d", i),
					"requests.cpu=1k,requests.memory=1Ti,limits.cpu=1k,limits.memory=1Ti,pods=10k",
					"requests.cpu=100,requests.memory=100Gi,limits.cpu=100,limits.memory=100Gi,pods=100"))
			}
			c := change(b, pods, nil, usualPod())
			b.ReportAllocs()
			for b.Loop() {
				if moved, err := c.Admit(quotas, nil); err != nil || len(moved) != n {
					b.Fatal(moved, err)
				}
			}
		})
	}
}

// What an update that changes nothing for quotas costs after the two costs.
func BenchmarkMoves(b *testing.B) {
	c := change(b, pods, largePod(), largePod())
	b.ReportAllocs()
	for b.Loop() {
		if c.MovesUsage() {
			b.Fatal("moves")
		}
	}
}

func BenchmarkTotal(b *testing.B) {
	q := newQuota("q", "requests.cpu=1k,requests.memory=1Ti,limits.cpu=1k,limits.memory=1Ti,pods=10k", "")
	costs := slices.Repeat([]*Cost{cost(b, pods, usualPod())}, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		Total(q, slices.Values(costs))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/object")
}
