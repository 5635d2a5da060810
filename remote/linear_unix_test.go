// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package remote_test

import (
	"syscall"
	"testing"
	"time"
)

// A review of eight times as many containers takes eight times as much of the processor, and not sixty-four times.
// The collector may run in one of them, so that the least of several times counts.
func TestLinear(t *testing.T) {
	const few, many, attempts = 500, 4000, 10
	largeReviews(t, func(name string, post func(tb testing.TB, containers int)) {
		t.Run(name, func(t *testing.T) {
			least := map[int]time.Duration{}
			for range attempts {
				for _, containers := range []int{few, many} {
					post(t, containers) // what is made once
					begin := processorTime(t)
					post(t, containers)
					if took := processorTime(t) - begin; least[containers] == 0 || took < least[containers] {
						least[containers] = took
					}
				}
				if least[many] < 3*many/few*least[few] {
					return
				}
			}
			t.Errorf("%d containers take %s, and %d take %s", few, least[few], many, least[many])
		})
	})
}

// processorTime returns the time that the process has had on processors.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
