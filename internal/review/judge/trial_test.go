package judge_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

func trial() *judge.Trial {
	return &judge.Trial{Candidate: candidate.Judge, Baseline: baseline.Judge, Workers: 4}
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
	summary, err := trial().Run(t.Context(), numbered(500, requests), func(r *judge.Result) error {
		if r.Request.AuditID != fmt.Sprint(next) || r.Candidate.Decision.Name != fmt.Sprint(next) {
			t.Errorf("result %d is of request %s, decision %s", next, r.Request.AuditID, r.Candidate.Decision.Name)
		}
		want := []judge.Difference{{Verdict: true}, {Warnings: true}, {Verdict: true}, {Verdict: true}, {}}[next%5]
		if r.Difference != want {
			t.Errorf("request %d differs in %+v, want %+v", next, r.Difference, want)
		}
		next++
		return nil
	})
	want := judge.Summary{Requests: 500, Unjudged: 100, Admitted: 200, Refused: 200, NewlyRefused: 200, Differing: 300}
	if err != nil || summary != want {
		t.Errorf("%+v, want %+v; %v", summary, want, err)
	}
}

// Without a baseline, nothing differs.
func TestTrialAlone(t *testing.T) {
	alone := &judge.Trial{Candidate: baseline.Judge}
	summary, err := alone.Run(t.Context(), numbered(20, func(int) *judge.Request { return told("refuse") }),
		func(r *judge.Result) error {
			if r.Baseline != nil || r.Difference.IsAny() {
				t.Errorf("%+v", r)
			}
			return nil
		})
	if want := (judge.Summary{Requests: 20, Admitted: 20}); err != nil || summary != want {
		t.Errorf("%+v, %v", summary, err)
	}
}

// Only so many requests are in memory at a time.
func TestTrialIsBounded(t *testing.T) {
	var read, told, most atomic.Int64
	requests := numbered(2000, func(int) *judge.Request {
		most.Store(max(most.Load(), read.Add(1)-told.Load()))
		return &judge.Request{} // which can't be judged
	})
	summary, err := trial().Run(t.Context(), requests, func(*judge.Result) error {
		told.Add(1)
		return nil
	})
	if err != nil || summary.Unjudged != 2000 {
		t.Errorf("%+v, %v", summary, err)
	}
	if limit := int64(4*16 + 4); most.Load() > limit {
		t.Errorf("%d requests were in memory, more than %d", most.Load(), limit)
	}
}

func TestTrialEndsEarly(t *testing.T) {
	errEnd := errors.New("the end")
	plain := func(int) *judge.Request { return told("") }
	t.Run("the stream fails", func(t *testing.T) {
		broken := func(yield func(*judge.Request, error) bool) {
			for i := 0; i < 7 && yield(plain(i), nil); i++ {
			}
			yield(nil, errEnd)
		}
		summary, err := trial().Run(t.Context(), broken, func(*judge.Result) error { return nil })
		if !errors.Is(err, errEnd) || summary.Requests != 7 || !summary.Interrupted {
			t.Errorf("%+v, %v", summary, err)
		}
	})
	t.Run("tell fails", func(t *testing.T) {
		summary, err := trial().Run(t.Context(), numbered(100, plain), func(r *judge.Result) error {
			if r.Request.AuditID == "5" {
				return errEnd
			}
			return nil
		})
		if !errors.Is(err, errEnd) || summary.Requests != 5 || !summary.Interrupted {
			t.Errorf("%+v, %v", summary, err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		summary, err := trial().Run(ctx, numbered(10000, plain), func(r *judge.Result) error {
			if r.Candidate.Decision.Verdict != v1alpha1.Admitted {
				t.Errorf("a result of the end was told: %+v", r.Candidate)
			}
			if r.Request.AuditID == "9" {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "interrupted after 10 requests") ||
			summary.Requests != 10 || !summary.Interrupted {
			t.Errorf("%+v, %v", summary, err)
		}
	})
	t.Run("interrupted while the source waits", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source := make(chan struct{})
		defer close(source)
		waiting := func(yield func(*judge.Request, error) bool) {
			yield(plain(0), nil)
			<-source
		}
		summary, err := trial().Run(ctx, waiting, func(*judge.Result) error {
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) || summary.Requests != 1 || !summary.Interrupted {
			t.Errorf("%+v, %v", summary, err)
		}
	})
}

func TestCompare(t *testing.T) {
	changed := func(plugin, op, path, value string) *judge.Verdict {
		d := &v1alpha1.Decision{Verdict: v1alpha1.Admitted, Steps: []v1alpha1.Step{{Plugin: plugin,
			Patch: []v1alpha1.PatchOperation{{Op: op, Path: path, Value: &v1alpha1.Value{Raw: []byte(value)}}}}}}
		return &judge.Verdict{Decision: d}
	}
	verdict := func(v v1alpha1.Verdict, message string, warnings ...string) *judge.Verdict {
		return &judge.Verdict{Decision: &v1alpha1.Decision{Verdict: v, Message: message}, Warnings: warnings}
	}
	for _, test := range []struct {
		name string
		a, b *judge.Verdict
		want judge.Difference
	}{
		{"same", verdict(v1alpha1.Admitted, ""), verdict(v1alpha1.Admitted, ""), judge.Difference{}},
		{"verdict", verdict(v1alpha1.Admitted, ""), verdict(v1alpha1.Refused, "m"), judge.Difference{Verdict: true}},
		{"message", verdict(v1alpha1.Refused, "n"), verdict(v1alpha1.Refused, "m"), judge.Difference{Message: true}},
		{"order of warnings", verdict(v1alpha1.Admitted, "", "a", "b"), verdict(v1alpha1.Admitted, "", "b", "a"),
			judge.Difference{}},
		{"warnings", verdict(v1alpha1.Admitted, "", "a"), verdict(v1alpha1.Admitted, ""), judge.Difference{Warnings: true}},
		{"changes", changed("p", "add", "/a", "1"), changed("p", "add", "/a", "2"), judge.Difference{Changes: true}},
		{"paths", changed("p", "add", "/a", "1"), changed("p", "add", "/b", "1"), judge.Difference{Changes: true}},
		{"no changes", changed("p", "add", "/a", "1"), verdict(v1alpha1.Admitted, ""), judge.Difference{Changes: true}},
		{"changes by others", changed("p", "add", "/a", "1"), changed("q", "add", "/a", "1"), judge.Difference{}},
		{"random names", changed("p", "add", "/a", `{"name": "kube-api-access-abc12"}`),
			changed("p", "add", "/a", `{"name": "kube-api-access-xyz78"}`), judge.Difference{}},
		{"changes of a refused object", changed("p", "add", "/a", "1"), verdict(v1alpha1.Refused, "m"),
			judge.Difference{Verdict: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := judge.Compare(test.a, test.b); got != test.want || got.IsAny() != (test.want != judge.Difference{}) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
