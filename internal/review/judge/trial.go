package judge

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Trial judges a stream of requests by a candidate, and compares its verdicts with those of a baseline.
type Trial struct {
	Candidate *Judge
	// Baseline is what the candidate is compared with; nil for nothing.
	Baseline *Judge
	// Workers is the number of requests that are judged at a time; 0 is the number of processors.
	Workers int
}

// A Result has the verdicts on a request.
type Result struct {
	Request   *Request
	Candidate *Verdict
	// Baseline is nil if there is no baseline. Difference is then empty.
	Baseline   *Verdict
	Difference Difference
}

// A Summary counts the results that were told.
type Summary struct {
	// Requests is the number of all of them.
	Requests int `json:"requests"`
	// Unjudged is the number of requests that couldn't be judged by the candidate or by the baseline. They
	// are counted in nothing that follows.
	Unjudged int `json:"unjudged"`
	// Admitted, Refused and Failed count the candidate's verdicts.
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"`
	Failed   int `json:"failed"`
	// NewlyRefused counts the requests that the baseline admits and the candidate doesn't, NewlyAdmitted
	// those that the candidate admits and the baseline doesn't.
	NewlyRefused  int `json:"newlyRefused"`
	NewlyAdmitted int `json:"newlyAdmitted"`
	// Differing counts the requests whose verdicts differ in anything.
	Differing int `json:"differing"`
	// Interrupted is true if the stream wasn't judged to its end.
	Interrupted bool `json:"interrupted,omitempty"`
}

// windowOfWorkers is the number of requests per worker that may be judged before the result of an earlier
// one is told.
const windowOfWorkers = 16

// Run judges the requests, and calls tell with each result, in the order of the requests. An error of the
// stream or of tell ends it, and so does the end of ctx. Then the summary is about the results that were
// told, and says that it is partial.
func (t *Trial) Run(ctx context.Context, requests iter.Seq2[*Request, error], tell func(*Result) error) (Summary,
	error) {
	workers := t.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	work, order := make(chan *task), make(chan *task, workers*windowOfWorkers)
	var failed error // of the stream; read once order is closed
	// If this is interrupted, the stream may wait for its source, as for standard input: it isn't waited for.
	go func() {
		defer close(order)
		defer close(work)
		for r, err := range requests {
			if err != nil {
				failed = err
				return
			}
			next := &task{Result: Result{Request: r}, done: make(chan struct{})}
			select {
			case order <- next:
			case <-running.Done():
				return
			}
			select {
			case work <- next:
			case <-running.Done():
				return
			}
		}
	}()
	for range workers {
		group.Go(func() { t.work(running, work) })
	}
	var summary Summary
	err := summary.collect(ctx, order, tell)
	if err == nil && failed != nil {
		err = fmt.Errorf("reading the request after %d others: %w", summary.Requests, failed)
	}
	summary.Interrupted = err != nil
	return summary, err
}

// A task is a request that is being judged.
type task struct {
	Result
	done chan struct{}
}

// work judges requests until there are no more, or until the context ends.
func (t *Trial) work(ctx context.Context, requests <-chan *task) {
	for {
		select {
		case next, ok := <-requests:
			if !ok {
				return
			}
			t.judge(ctx, &next.Result)
			close(next.done)
		case <-ctx.Done():
			return
		}
	}
}

// judge judges a request by both sides.
func (t *Trial) judge(ctx context.Context, r *Result) {
	r.Candidate = t.Candidate.Judge(ctx, r.Request)
	if t.Baseline != nil {
		r.Baseline = t.Baseline.Judge(ctx, r.Request)
		r.Difference = Compare(r.Candidate, r.Baseline)
	}
}

// collect tells and counts the results until there are no more, or until the context ends.
func (s *Summary) collect(ctx context.Context, order <-chan *task, tell func(*Result) error) error {
	for {
		var next *task
		var ok bool
		select {
		case next, ok = <-order:
		case <-ctx.Done():
		}
		if ok {
			select {
			case <-next.done:
			case <-ctx.Done():
			}
		}
		// A result that came at the same time as the end of the context may be a result of that end.
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d requests: %w", s.Requests, context.Cause(ctx))
		}
		if !ok {
			return nil
		}
		if err := tell(&next.Result); err != nil {
			return err
		}
		s.add(&next.Result)
	}
}

// add counts a result.
func (s *Summary) add(r *Result) {
	s.Requests++
	if r.Candidate.Err != nil || r.Baseline != nil && r.Baseline.Err != nil {
		s.Unjudged++
		return
	}
	verdict := r.Candidate.Decision.Verdict
	switch verdict {
	case v1alpha1.Admitted:
		s.Admitted++
	case v1alpha1.Refused:
		s.Refused++
	default:
		s.Failed++
	}
	if r.Baseline == nil {
		return
	}
	if r.Difference.IsAny() {
		s.Differing++
	}
	switch admits := r.Baseline.Decision.Verdict == v1alpha1.Admitted; {
	case admits && verdict != v1alpha1.Admitted:
		s.NewlyRefused++
	case !admits && verdict == v1alpha1.Admitted:
		s.NewlyAdmitted++
	}
}
