// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// Options holds the options of Run.
type Options struct {
	// Plugins are all available plugins, in run order.
	Plugins []plugin.Descriptor
	// Flags are flags for every suite, before its own, see Flags.
	Flags []string
	// Allowed says what the suites' own flags may do.
	Allowed Allowed
	// Run selects the cases; nil for all.
	Run *Pattern
	// Coverage counts the coverage of the suites' state.
	Coverage bool
	// Update rewrites expected objects that differ, in the suites' files.
	Update bool
	// Progress, if not nil, is called with the number of judged cases and of all cases, one call at a
	// time.
	Progress func(done, all int)
}

// Run judges suites, several at a time if there are many and more than one processor. Cases that
// Options.Run leaves out are not in the report, nor are suites without any cases left. If it
// returns an error with a report, the error is Options.Update's.
func Run(ctx context.Context, suites []suite.Suite, options Options) (*Report, error) {
	r := &run{Options: options, ctx: ctx}
	report := &Report{APIVersion: APIVersion, Kind: Kind, Suites: []Suite{}}
	if note := review.EmulationNote(); note != "" {
		report.Notes = []string{note}
	}
	for i := range suites {
		if s := r.selectCases(&suites[i]); len(s.Cases) > 0 {
			r.tasks = append(r.tasks, &task{Suite: s, flags: flagsOf(s)})
			r.all += len(s.Cases)
		}
	}
	r.work()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var updates []suite.Update
	for _, t := range r.tasks {
		report.Suites = append(report.Suites, t.report)
		updates = append(updates, t.updates...)
	}
	if options.Coverage {
		report.Coverage = mergeCoverage(r.tasks)
	}
	report.summarize()
	updated, notes, err := suite.Rewrite(updates)
	report.Summary.Updated, report.Notes = updated, append(report.Notes, notes...)
	return report, err
}

// run is one call of Run.
type run struct {
	Options
	ctx   context.Context
	tasks []*task
	all   int
	mu    sync.Mutex // guards done, Progress, and the reading of flags
	done  int
}

// task is a suite that is judged.
type task struct {
	*suite.Suite
	flags    string // tasks with the same flags can share a server
	report   Suite
	coverage *coverageCounter
	updates  []suite.Update
}

// flagsOf returns the flags of a suite as one text, with the folders of the files that they may
// name.
func flagsOf(s *suite.Suite) string {
	if len(s.Flags) == 0 {
		return ""
	}
	texts := slices.Clone(s.Within)
	for _, flag := range s.Flags {
		texts = append(texts, flag.Text)
	}
	return strings.Join(texts, "\x00")
}

// selectCases returns the suite with only the cases that Options.Run selects.
func (r *run) selectCases(s *suite.Suite) *suite.Suite {
	if r.Run == nil {
		return s
	}
	some := *s
	some.Cases = slices.DeleteFunc(slices.Clone(s.Cases), func(c suite.Case) bool {
		return !r.Run.matches(s.Name + "/" + c.Name)
	})
	return &some
}

// casesPerServer is the number of cases that take about as long as the start of a server.
const casesPerServer = 100

// work runs all tasks. Tasks with the same flags follow each other.
func (r *run) work() {
	queue := slices.Clone(r.tasks)
	slices.SortStableFunc(queue, func(a, b *task) int { return strings.Compare(a.flags, b.flags) })
	tasks := make(chan *task, len(queue))
	kinds := map[string]bool{}
	for _, t := range queue {
		kinds[t.flags] = true
		tasks <- t
	}
	close(tasks)
	workers := min(runtime.GOMAXPROCS(0), len(queue), max(len(kinds), (r.all+casesPerServer-1)/casesPerServer))
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			w := &worker{run: r}
			defer w.close()
			for t := range tasks {
				w.judge(t)
			}
		})
	}
	group.Wait()
}

// worker has one server at a time.
type worker struct {
	*run
	flags    string
	reviewer *review.Reviewer
	// base is the state of the server at its start.
	base     *review.Mark
	observer *observer
	// static has the objects that the server's plugins read from files.
	static []input.Document
}

func (w *worker) close() error {
	if w.reviewer == nil {
		return nil
	}
	err := w.reviewer.Close()
	w.reviewer = nil
	return err
}

// judge judges a suite.
func (w *worker) judge(t *task) {
	t.report = Suite{Source: t.Source, Name: t.Name, Cases: []*Case{}}
	mark, err := w.begin(t)
	if w.Coverage {
		t.coverage = newCoverageCounter(t.Suite)
		if w.reviewer != nil {
			t.coverage.include(w.static)
		}
	}
	if err == nil {
		t.report.Warnings, err = w.reviewer.PolicyWarnings(w.ctx, t.policies(w.static))
	}
	begin := time.Now()
	for i := range t.Cases {
		c := &t.Cases[i]
		result := &Case{Source: c.Source, Name: c.Name}
		t.report.Cases = append(t.report.Cases, result)
		if err == nil && mark == nil { // the last case needed a new server after it
			mark, err = w.begin(t)
		}
		if err != nil {
			t.report.Error = err.Error()
			result.Outcome = Error
			continue
		}
		mark = w.judgeCase(t, c, result, mark)
		w.countDone()
	}
	t.report.Seconds = time.Since(begin).Seconds()
}

// policies returns the documents that may have the policies under test: those of the suite's state,
// of its cases' state, and static ones.
func (t *task) policies(static []input.Document) []input.Document {
	all := slices.Concat(static, t.State)
	for i := range t.Cases {
		for _, d := range t.Cases[i].State {
			if !slices.ContainsFunc(all, func(known input.Document) bool { return known.Object == d.Object }) {
				all = append(all, d)
			}
		}
	}
	return all
}

func (w *worker) countDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done++; w.Progress != nil {
		w.Progress(w.done, w.all)
	}
}

// begin makes the server's state that of the suite alone. It starts a server if it has to.
func (w *worker) begin(t *task) (*review.Mark, error) {
	if w.reviewer != nil && w.flags == t.flags {
		err := w.reviewer.Restore(w.ctx, w.base)
		if err == nil {
			return w.load(t)
		}
		if !errors.Is(err, review.ErrNotRestored) {
			return nil, err
		}
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	w.mu.Lock() // flags may change global variables
	options, err := reviewOptions(w.Plugins, w.Options.Flags, w.Allowed, t.Suite)
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	w.observer = &observer{}
	if w.Coverage {
		options.Config.Observers = append(options.Config.Observers, w.observer.observe())
	}
	if w.reviewer, err = review.Start(w.ctx, *options); err != nil {
		return nil, err
	}
	w.flags = t.flags
	if w.static, err = staticManifests(w.Plugins, &options.Config.Admission); err != nil {
		return nil, err
	}
	if w.base, err = w.reviewer.Mark(w.ctx); err != nil {
		return nil, err
	}
	return w.load(t)
}

func (w *worker) load(t *task) (*review.Mark, error) {
	if err := w.reviewer.Load(w.ctx, t.State); err != nil {
		return nil, fmt.Errorf("spec.state: %w", err)
	}
	return w.reviewer.Mark(w.ctx)
}

// restore undoes what a case wrote. It returns nil if only a new server can undo that.
func (w *worker) restore(mark *review.Mark) (*review.Mark, error) {
	err := w.reviewer.Restore(w.ctx, mark)
	if errors.Is(err, review.ErrNotRestored) {
		return nil, w.close()
	}
	return mark, err
}
