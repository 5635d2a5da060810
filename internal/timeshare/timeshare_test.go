// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package timeshare

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// begin returns the context of a request that arrives now.
func begin(t *testing.T, timeout time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(request.WithReceivedTimestamp(t.Context(), time.Now()), timeout)
	t.Cleanup(cancel)
	return ctx
}

// hang takes all the time that Limit gives, and returns it.
func hang(t *testing.T, ctx context.Context) time.Duration {
	t.Helper()
	start := time.Now()
	limited, cancel := Limit(ctx)
	defer cancel()
	<-limited.Done()
	if !IsUsedUp(limited) || !errors.Is(limited.Err(), context.DeadlineExceeded) {
		t.Errorf("the context ended with %v because of %v", limited.Err(), context.Cause(limited))
	}
	return time.Since(start)
}

// Calls that hang get less and less, and a tenth of the time remains however many there are.
func TestHangingCallsLeaveTime(t *testing.T) {
	for _, timeout := range []time.Duration{34 * time.Second, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx := begin(t, timeout)
			if first, want := hang(t, Dispensable(ctx, Sequential)), timeout*9/10/3; first != want {
				t.Errorf("of %v the first call gets %v, want %v", timeout, first, want)
			}
			for range 1000 {
				hang(t, Dispensable(ctx, Sequential))
			}
			if last := hang(t, Dispensable(ctx, Last)); last > time.Millisecond {
				t.Errorf("after 1001 calls, one gets %v", last)
			}
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline); left != timeout/10 {
				t.Errorf("of %v there are %v left", timeout, left)
			}
		})
	}
}

// What is asked last gets all that is left, except for the reserve.
func TestLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := begin(t, 10*time.Second)
		time.Sleep(2 * time.Second)
		if got := hang(t, Dispensable(ctx, Last)); got != 7*time.Second {
			t.Errorf("it gets %v, want 7s", got)
		}
	})
}

// Of a request whose beginning is unknown, some time remains, too.
func TestUnknownBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range 10 {
			hang(t, Dispensable(ctx, Sequential))
		}
		if ctx.Err() != nil {
			t.Error("no time is left")
		}
	})
}

// What the request can't do without, or what has no deadline, isn't limited.
func TestNoLimit(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"needed":      begin(t, time.Minute),
		"no deadline": Dispensable(t.Context(), Sequential),
	} {
		if limited, cancel := Limit(ctx); limited != ctx {
			t.Errorf("%s: it is limited", name)
		} else {
			cancel()
		}
	}
}

// The end of the request isn't mistaken for that of a part.
func TestRequestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(begin(t, time.Minute))
	limited, stop := Limit(Dispensable(ctx, Sequential))
	defer stop()
	cancel()
	if IsUsedUp(limited) {
		t.Errorf("the context ended because of %v", context.Cause(limited))
	}
}
