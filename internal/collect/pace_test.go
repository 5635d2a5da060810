// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// A server that is ready gets more room until it is over. An explicit GOGC or GOMEMLIMIT takes
// precedence.
func TestFollow(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1)) // in a container it is set
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		follow(over)
	}()
	for percent() != mostPercent {
		runtime.Gosched()
	}
	close(over)
	<-ended
	if got := percent(); got != 77 {
		t.Errorf("afterwards it is %d, want 77", got)
	}
	for variable, value := range map[string]string{"GOGC": "50", "GOMEMLIMIT": "1GiB"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			follow(nil) // returns
			if got := percent(); got != 77 {
				t.Errorf("with %s it is %d", variable, got)
			}
		})
	}
}

// As much garbage as is kept, and where little is kept twice as much.
func TestPercentFor(t *testing.T) {
	for mb, want := range map[uint64]int{0: 200, 1: 200, 192: 200, 256: 150, 384: 100, 4096: 100} {
		if got := percentFor(mb << 20); got != want {
			t.Errorf("with %d MB it is %d, want %d", mb, got, want)
		}
	}
}

func TestShouldGiveBack(t *testing.T) {
	const mb = 1 << 20
	for _, test := range []struct {
		lastTick, sinceGiven uint64 // MB
		want                 bool
	}{
		{1, 1, false}, {1, 255, false}, {1, 256, true}, {127, 5000, true}, {128, 5000, false},
	} {
		if got := shouldGiveBack(test.lastTick*mb, test.sinceGiven*mb); got != test.want {
			t.Errorf("%d MB in the last tick, %d since: %t", test.lastTick, test.sinceGiven, got)
		}
	}
}
