// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seconds converts untrusted numbers of seconds to durations.
package seconds

import (
	"math"
	"time"
)

// Most is the longest whole number of seconds that a Duration can be: 292 years.
const Most = math.MaxInt64 / int64(time.Second)

// Duration returns n seconds. If a Duration can't hold that, it returns the longest one, or the most
// negative one: there the product of n and time.Second would overflow.
func Duration(n int64) time.Duration {
	switch {
	case n > Most:
		return math.MaxInt64
	case n < -Most:
		return math.MinInt64
	}
	return time.Duration(n) * time.Second
}
