// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeshare divides a request's time, so that webhooks and policies under failurePolicy
// Ignore can't use it up.
//
// A tenth of the time is kept for everything that the request can't do without. A call or read that
// it can do without gets a part of what is left of the other nine tenths: a third if more of them may
// follow, all if none does. However many of them hang, one after the other, some time remains.
//
//	a write's 34 seconds │ 10 s │ 6.8 s │ 4.5 s │ 3 s │ 2 s │ … │ reserve, 3.4 s │
package timeshare

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// Sequential and Last are what to divide the time by: for what is done one after the other, and
	// for what is done at once, with nothing like it afterwards.
	Sequential, Last = 3, 1

	reserve = 10
)

// usedUpError is the cause of a context's end if what was done with it has used up its part of the
// request's time.
//
// Its text is that of the end of a deadline, since an http.Transport returns the cause.
type usedUpError struct{}

func (*usedUpError) Error() string { return context.DeadlineExceeded.Error() }

// Unwrap returns context.DeadlineExceeded.
func (*usedUpError) Unwrap() error { return context.DeadlineExceeded }

// IsUsedUp reports whether the context has ended because what was done with it has used up its part of
// the request's time.
func IsUsedUp(ctx context.Context) bool {
	_, ok := context.Cause(ctx).(*usedUpError)
	return ok
}

type dispensableKey struct{}

// Dispensable returns a context for calls and reads that the request can do without. Limit divides
// the time that is left by divisor.
func Dispensable(ctx context.Context, divisor int) context.Context {
	return context.WithValue(ctx, dispensableKey{}, divisor)
}

// IsDispensable reports whether ctx is for what the request can do without.
func IsDispensable(ctx context.Context) bool { return ctx.Value(dispensableKey{}) != nil }

// Limit returns a context for one call or read. It ends when that has used up its part of the
// request's time. It is ctx itself if the request can't do without the call, or has no deadline.
func Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	divisor, dispensable := ctx.Value(dispensableKey{}).(int)
	deadline, ok := ctx.Deadline()
	if !dispensable || !ok {
		return ctx, func() {}
	}
	now := time.Now()
	begin, ok := request.ReceivedTimestampFrom(ctx)
	if !ok {
		begin = now
	}
	part := (deadline.Sub(now) - deadline.Sub(begin)/reserve) / time.Duration(divisor)
	return context.WithDeadlineCause(ctx, now.Add(part), &usedUpError{})
}
