// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package seconds

import (
	"math"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0:                        0,
		30:                       30 * time.Second,
		-1:                       -time.Second,
		Most:                     9_223_372_036 * time.Second,
		-Most:                    -9_223_372_036 * time.Second,
		Most + 1:                 math.MaxInt64,
		-Most - 1:                math.MinInt64,
		10_000_000_000:           math.MaxInt64,
		18_446_744_074:           math.MaxInt64, // overflows to less than a second
		math.MaxInt64:            math.MaxInt64,
		math.MinInt64:            math.MinInt64,
		-18_446_744_074:          math.MinInt64,
		int64(math.MinInt64) + 1: math.MinInt64,
	} {
		if got := Duration(n); got != want {
			t.Errorf("%d seconds are %s, want %s", n, got, want)
		}
	}
}
