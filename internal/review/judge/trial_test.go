// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/judge"
)

// numbered returns a stream of n requests, numbered by their audit IDs, each made by make.
func numbered(n int, make func(i int) *judge.Request) iter.Seq2[*judge.Request, error] {
	return func(yield func(*judge.Request, error) bool) {
		for i := range n {
			r := make(i)
			r.AuditID = fmt.Sprint(i)
			if !yield(r, nil) {
				return
			}
		}
	}
}

// each judges a stream by a trial, and calls tell with each request and its result.
func each(ctx context.Context, requests iter.Seq2[*judge.Request, error],
	tell func(*judge.Request, judge.Result) error) error {
	trial := &judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge}
	type judged struct {
		*judge.Request
		judge.Result
	}
	return judge.Each(ctx, 0, requests, func(ctx context.Context, r *judge.Request) judged {
		return judged{r, trial.Judge(ctx, r, "")}
	}, func(j judged) error { return tell(j.Request, j.Result) })
}

func TestTrial(t *testing.T) {
	requests := func(i int) *judge.Request {
		switch i % 5 {
		case 0:
			return told("refuse")
		case 1:
			return told("warn")
		case 2: // the candidate's namespace refuses it
			return &judge.Request{User: dev, Operation: admission.Create, Resource: pods, Namespace: "shop",
				Object: pod("", `, "hostNetwork": true`)}
		case 3:
			return told("abort")
		}
		return &judge.Request{User: dev, Operation: admission.Create, Resource: pods, Namespace: "shop", Object: pod("", "")}
	}
	next := 0
	err := each(t.Context(), numbered(500, requests), func(request *judge.Request, r judge.Result) error {
		if request.AuditID != fmt.Sprint(next) || r.Candidate.Decision.Name != fmt.Sprint(next) {
			t.Errorf("result %d is of request %s, decision %s", next, request.AuditID, r.Candidate.Decision.Name)
		}
		want := []judge.Effect{judge.NewlyRefused, judge.Warns, judge.NewlyRefused, judge.NoEffect, judge.NoEffect}[next%5]
		unjudged := []string{"", "", "", judge.JudgingFailed, ""}[next%5]
		if r.Effect != want || r.Unjudged != unjudged {
			t.Errorf("request %d: %q, unjudged %q; want %q, %q", next, r.Effect, r.Unjudged, want, unjudged)
		}
		next++
		return nil
	})
	if err != nil || next != 500 {
		t.Errorf("%d results, %v", next, err)
	}
}

// How a request ended when it was made is compared with the verdict, as far as the state before explains
// it.
func TestTrialOfRecorded(t *testing.T) {
	for _, test := range []struct {
		name     string
		trial    judge.Trial
		request  *judge.Request
		recorded v1alpha1.Verdict
		effect   judge.Effect
		unjudged string
		asked    bool // whether the side before was
	}{
		{name: "admitted, and is refused", request: told("refuse"), recorded: v1alpha1.Admitted,
			trial: judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge}, effect: judge.NewlyRefused, asked: true},
		{name: "refused, and is admitted", request: told("refuse"), recorded: v1alpha1.Refused,
			trial: judge.Trial{Candidate: baseline.Judge, Before: candidate.Judge}, effect: judge.NewlyAdmitted, asked: true},
		{name: "admitted, and the state refuses it", request: told("refuse"), recorded: v1alpha1.Admitted,
			trial: judge.Trial{Candidate: candidate.Judge, Before: candidate.Judge}, unjudged: judge.StateChanged, asked: true},
		{name: "refused, and nothing refuses it", request: told(""), recorded: v1alpha1.Refused,
			trial: judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge}, unjudged: judge.RefusedElsewhere, asked: true},
		{name: "refused, and is refused", request: told("refuse"), recorded: v1alpha1.Refused,
			trial: judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge}, asked: true},
		{name: "admitted, and is admitted", request: told(""), recorded: v1alpha1.Admitted,
			trial: judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge, OnlyRefuses: true}},
		{name: "admitted, and changed by both", recorded: v1alpha1.Admitted, request: &judge.Request{User: dev,
			Operation: admission.Create, Resource: pods, Namespace: "shop", Object: pod("", "")},
			trial: judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge, OnlyRefuses: true}},
		{name: "admitted, and is warned about", request: told("warn"), recorded: v1alpha1.Admitted, effect: judge.Warns,
			trial: judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge, OnlyRefuses: true}, asked: true},
		{name: "admitted, without another side", request: told("refuse"), recorded: v1alpha1.Admitted,
			trial: judge.Trial{Candidate: candidate.Judge}, effect: judge.NewlyRefused},
		{name: "refused, without another side", request: told(""), recorded: v1alpha1.Refused,
			trial: judge.Trial{Candidate: candidate.Judge}, unjudged: judge.RefusedElsewhere},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.trial.Judge(t.Context(), test.request, test.recorded)
			if r.Effect != test.effect || r.Unjudged != test.unjudged || (r.Before != nil) != test.asked {
				t.Errorf("%q, unjudged %q, before %v", r.Effect, r.Unjudged, r.Before)
			}
		})
	}
}

// Only so many requests are in memory at a time.
func TestEachIsBounded(t *testing.T) {
	var read, told, most atomic.Int64
	requests := numbered(2000, func(int) *judge.Request {
		most.Store(max(most.Load(), read.Add(1)-told.Load()))
		return &judge.Request{} // which can't be judged
	})
	err := each(t.Context(), requests, func(*judge.Request, judge.Result) error {
		told.Add(1)
		return nil
	})
	if err != nil || told.Load() != 2000 {
		t.Errorf("%d results, %v", told.Load(), err)
	}
	workers := int64(runtime.GOMAXPROCS(0))
	if limit := workers*16 + workers + 2; most.Load() > limit {
		t.Errorf("%d requests were in memory, more than %d", most.Load(), limit)
	}
}

func TestEachEndsEarly(t *testing.T) {
	errEnd := errors.New("the end")
	plain := func(int) *judge.Request { return told("") }
	told := 0
	count := func(*judge.Request, judge.Result) error {
		told++
		return nil
	}
	t.Run("the stream fails", func(t *testing.T) {
		broken := func(yield func(*judge.Request, error) bool) {
			for i := 0; i < 7 && yield(plain(i), nil); i++ {
			}
			yield(nil, errEnd)
		}
		if err := each(t.Context(), broken, count); !errors.Is(err, errEnd) || told != 7 {
			t.Errorf("%d results, %v", told, err)
		}
	})
	t.Run("tell fails", func(t *testing.T) {
		told = 0
		stream, ended := endingSlowly(numbered(100, plain))
		err := each(t.Context(), stream, func(r *judge.Request, result judge.Result) error {
			if r.AuditID == "5" {
				return errEnd
			}
			return count(r, result)
		})
		if !errors.Is(err, errEnd) || told != 5 || !*ended {
			t.Errorf("%d results, %v, the stream has ended: %t", told, err, *ended)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		told = 0
		ctx, cancel := context.WithCancel(t.Context())
		stream, ended := endingSlowly(numbered(10000, plain))
		err := each(ctx, stream, func(r *judge.Request, result judge.Result) error {
			if result.Candidate.Decision.Verdict != v1alpha1.Admitted {
				t.Errorf("a result of the end was told: %+v", result.Candidate)
			}
			if r.AuditID == "9" {
				cancel()
			}
			return count(r, result)
		})
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "interrupted after 10 requests") || told != 10 || !*ended {
			t.Errorf("%d results, %v, the stream has ended: %t", told, err, *ended)
		}
	})
	t.Run("interrupted while the source waits", func(t *testing.T) {
		told = 0
		ctx, cancel := context.WithCancel(t.Context())
		stream, ended := endingSlowly(func(yield func(*judge.Request, error) bool) {
			yield(plain(0), nil)
			<-ctx.Done()
		})
		err := each(ctx, stream, func(r *judge.Request, result judge.Result) error {
			cancel()
			return count(r, result)
		})
		if !errors.Is(err, context.Canceled) || told != 1 || !*ended {
			t.Errorf("%d results, %v, the stream has ended: %t", told, err, *ended)
		}
	})
}

// endingSlowly returns a stream that takes some time to end, and whether it has ended.
func endingSlowly(stream iter.Seq2[*judge.Request, error]) (iter.Seq2[*judge.Request, error], *bool) {
	ended := false
	return func(yield func(*judge.Request, error) bool) {
		stream(yield)
		for range 10_000 {
			runtime.Gosched()
		}
		ended = true
	}, &ended
}
