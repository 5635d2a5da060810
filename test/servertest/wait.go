// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"errors"
	"testing"
	"time"
)

// What a server does in the background is asked for often at first and then less often: who asks
// keeps the machine from it. The deadline is far more than anything takes, on a busy machine too.
const (
	pollInterval    = 5 * time.Millisecond
	maxPollInterval = 100 * time.Millisecond
	deadline        = 2 * time.Minute
)

// Eventually asks until it is so.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	Retry(t, what, func() error {
		if !so() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// Retry tries until there is no error. The last one is what the test fails with.
func Retry(t testing.TB, what string, try func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := try()
		if err == nil {
			return
		}
		waited := time.Since(began)
		if waited > deadline {
			t.Fatalf("waiting %v for %s: %v", deadline, what, err)
		}
		time.Sleep(min(max(pollInterval, waited/20), maxPollInterval))
	}
}
