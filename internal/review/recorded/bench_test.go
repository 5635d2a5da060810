// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// BenchmarkRead reads a log of updates and patches of about 5 kB with one goroutine that reads and
// two that decode.
func BenchmarkRead(b *testing.B) {
	padding := strings.Repeat(`\"quoted\" text and some more; `, 60)
	large := func(name string, version int) string {
		return strings.Replace(configMap(name, "v", version), `"data":{`, `"data":{"padding":"`+padding+`",`, 1)
	}
	name := filepath.Join(b.TempDir(), "audit.log")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	const objects = 500
	n, size := 0, 0
	for i := range 40 {
		for j := range objects {
			e := patchedMap(fmt.Sprintf("m%d", j), "v", i*objects+j+1)
			e.response = large(e.name, i*objects+j+1)
			if e.request = `{"data":{"k":"v"}}`; j%2 == 0 {
				e.verb, e.request = "update", large(e.name, 0)
			}
			written, err := f.WriteString(e.line())
			if err != nil {
				b.Fatal(err)
			}
			n++
			size += written
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	for _, decoders := range []int{0, 2} {
		b.Run(fmt.Sprintf("decoders=%d", decoders), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				readForBenchmark(b, name, decoders)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func readForBenchmark(b *testing.B, name string, decoders int) {
	r, err := Open(b.Context(), []string{name}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	records := make(chan []*Record, 16)
	var group sync.WaitGroup
	for range decoders {
		group.Go(func() {
			for batch := range records {
				for _, record := range batch {
					if q := record.Decode(); q.Object == nil {
						b.Error("no object")
					}
				}
			}
		})
	}
	var batch []*Record
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		if decoders == 0 {
			continue
		}
		if batch = append(batch, record); len(batch) == 64 {
			records <- batch
			batch = nil
		}
	}
	if decoders > 0 {
		records <- batch
	}
	close(records)
	group.Wait()
}
