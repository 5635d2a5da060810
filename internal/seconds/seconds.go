// Package seconds makes durations of numbers of seconds that somebody else has chosen.
package seconds

import (
	"math"
	"time"
)

// Most is the longest whole number of seconds that a Duration can be: 292 years.
const Most = math.MaxInt64 / int64(time.Second)

// Duration is n seconds or, where a Duration can't be that long, the longest there is, either way.
// The product of n and time.Second overflows there, into any duration at all.
func Duration(n int64) time.Duration {
	switch {
	case n > Most:
		return math.MaxInt64
	case n < -Most:
		return math.MinInt64
	}
	return time.Duration(n) * time.Second
}
