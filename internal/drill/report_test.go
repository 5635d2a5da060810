// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"fmt"
	"testing"

	"gatehouse.dev/internal/inventory"
)

// A write takes as long to add up among the writes of 20,000 namespaces as among those of 1,000.
func BenchmarkTally(b *testing.B) {
	for _, namespaces := range []int{1000, 20_000} {
		b.Run(fmt.Sprint("namespaces=", namespaces), func(b *testing.B) {
			writes := make([]areaWrite, namespaces)
			for i := range writes {
				writes[i] = areaWrite{&inventory.Write{What: "the creation of pods"}, fmt.Sprintf("namespace-%05d", i), false}
			}
			for b.Loop() {
				sum := newTally()
				for _, write := range writes {
					sum.add(write, effect{stops: true, by: []string{"w"}})
				}
				if len(sum.areas) != namespaces {
					b.Fatalf("%d areas", len(sum.areas))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(namespaces), "ns/write")
		})
	}
}
