// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"gatehouse.dev/internal/count"
)

// windowOfWorkers is the number of values per worker that may be worked on before the result of an
// earlier one is told.
const windowOfWorkers = 16

// Each calls work for each value of a stream, and tell with each result, in the order of the stream. That many
// workers work at a time, or one for each processor if workers is 0; one alone works in the order of the stream as
// well. An error of the stream or of tell ends it, and so does the end of ctx. Then results that were not told
// are dropped. It returns once the stream has ended, which is asked for one more value at most: a stream that waits for
// its source must end with ctx. Its memory doesn't depend on the length of the stream.
func Each[T, R any](ctx context.Context, workers int, values iter.Seq2[T, error], work func(context.Context, T) R,
	tell func(R) error) error {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	tasks, order := make(chan *task[T, R]), make(chan *task[T, R], workers*windowOfWorkers)
	var failed error // of the stream; read once order is closed
	group.Go(func() {
		defer close(order)
		defer close(tasks)
		for value, err := range values {
			if err != nil {
				failed = err
				return
			}
			next := &task[T, R]{value: value, done: make(chan struct{})}
			select {
			case order <- next:
			case <-running.Done():
				return
			}
			select {
			case tasks <- next:
			case <-running.Done():
				return
			}
		}
	})
	for range workers {
		group.Go(func() {
			for {
				select {
				case next, ok := <-tasks:
					if !ok {
						return
					}
					next.result = work(running, next.value)
					close(next.done)
				case <-running.Done():
					return
				}
			}
		})
	}
	told, err := collect(ctx, order, tell)
	if err == nil && failed != nil && told == 0 {
		return failed
	}
	if err == nil && failed != nil {
		err = fmt.Errorf("reading on after %s: %w", count.Of(told, "request"), failed)
	}
	return err
}

// A task is a value that is being worked on.
type task[T, R any] struct {
	value  T
	result R
	done   chan struct{}
}

// collect tells the results until there are no more, or until the context ends. It returns how many it
// told.
func collect[T, R any](ctx context.Context, order <-chan *task[T, R], tell func(R) error) (told int, err error) {
	for {
		var next *task[T, R]
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
			return told, fmt.Errorf("interrupted after %s: %w", count.Of(told, "request"), context.Cause(ctx))
		}
		if !ok {
			return told, nil
		}
		if err := tell(next.result); err != nil {
			return told, err
		}
		told++
	}
}
