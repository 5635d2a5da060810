// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"gatehouse.dev/internal/aggregate"
)

func TestSameAsUpstream(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	for _, errs := range [][]error{nil, {nil}, {a}, {a, a}, {a, b}, {a, b, a, nil, c},
		{a, utilerrors.NewAggregate([]error{b, aggregate.New([]error{c, a})})}} {
		got, want := aggregate.New(errs), utilerrors.NewAggregate(errs)
		if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
			t.Errorf("%v: %v, and upstream says %v", errs, got, want)
		}
		if got != nil && !errors.Is(got, a) {
			t.Errorf("%v doesn't wrap a", got)
		}
	}
}

// What is copied grows with the errors, not with their square.
func TestLinear(t *testing.T) {
	bytesOf := func(n int) int64 {
		var errs []error
		for i := range n {
			errs = append(errs, fmt.Errorf("%d: %s", i, strings.Repeat("x", 100)))
		}
		err := aggregate.New(errs)
		return testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = err.Error()
			}
		}).AllocedBytesPerOp()
	}
	if few, many := bytesOf(500), bytesOf(5000); many > 20*few {
		t.Errorf("500 errors take %d bytes, and ten times as many %d", few, many)
	}
}
