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

// Options say how to judge suites.
type Options struct {
	// Plugins are all available plugins, in run order.
	Plugins []plugin.Descriptor
	// Flags are flags for every suite, before its own, see Flags.
	Flags []string
	// Allowed says what the suites' own flags may do.
	Allowed Allowed
	// Run says which cases are judged; nil for all.
	Run *Pattern
	// Coverage says that it is to be found out what no case has touched.
	Coverage bool
	// Update says that expected objects are rewritten in the suites' files where they differ.
	Update bool
	// Progress, if not nil, is called with the number of judged cases and of all; one call at a
	// time.
	Progress func(done, all int)
}

// Run judges suites, several at a time if there are many and more than one processor. Cases that
// Options.Run leaves out are not in the report, nor are suites without any cases left. If it
// returns an error with a report, the error is Options.Update's.
func Run(ctx context.Context, suites []suite.Suite, options Options) (*Report, error) {
	r := &run{Options: options, ctx: ctx}
	report := &Report{APIVersion: APIVersion, Kind: Kind, Suites: []Suite{}}
	for i := range suites {
		if s := r.selected(&suites[i]); len(s.Cases) > 0 {
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
		report.Coverage = merge(r.tasks)
	}
	report.summarize()
	var err error
	report.Summary.Updated, err = suite.Rewrite(updates)
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
	flags    string // what it needs a server with
	report   Suite
	covering *covering
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

// selected is a suite with the cases that are to be judged.
func (r *run) selected(s *suite.Suite) *suite.Suite {
	if r.Run == nil {
		return s
	}
	some := *s
	some.Cases = slices.DeleteFunc(slices.Clone(s.Cases), func(c suite.Case) bool {
		return !r.Run.matches(s.Name + "/" + c.Name)
	})
	return &some
}

// aServersWorth is the number of cases that take about as long as the start of a server.
const aServersWorth = 100

// work judges all tasks. Those with the same flags come after each other.
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
	workers := min(runtime.GOMAXPROCS(0), len(queue), max(len(kinds), (r.all+aServersWorth-1)/aServersWorth))
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
	base *review.Mark
	seen *observer
	// static are what its plugins have from files.
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
		t.covering = newCovering(t.Suite)
		if w.reviewer != nil {
			t.covering.include(w.static)
		}
	}
	if err == nil {
		t.report.Warnings = w.reviewer.PolicyWarnings(t.policies(w.static))
	}
	begin := time.Now()
	for i := range t.Cases {
		c := &t.Cases[i]
		result := &Case{Source: c.Source, Name: c.Name}
		t.report.Cases = append(t.report.Cases, result)
		if err == nil && mark == nil { // what the last case wrote took its server
			mark, err = w.begin(t)
		}
		if err != nil {
			t.report.Error = err.Error()
			result.Outcome = Error
			continue
		}
		mark = w.try(t, c, result, mark)
		w.count()
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

func (w *worker) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done++; w.Progress != nil {
		w.Progress(w.done, w.all)
	}
}

// begin gives the server the suite's state, and alone that.
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
	w.mu.Lock() // what is the process's is touched
	options, err := reviewOptions(w.Plugins, w.Options.Flags, w.Allowed, t.Suite)
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	w.seen = &observer{}
	if w.Coverage {
		options.Config.Observers = append(options.Config.Observers, w.seen.observe())
	}
	if w.reviewer, err = review.Start(w.ctx, *options); err != nil {
		return nil, err
	}
	w.flags = t.flags
	if w.static, err = static(w.Plugins, &options.Config.Admission); err != nil {
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

// restore undoes what a case wrote; no mark says that it took the server.
func (w *worker) restore(mark *review.Mark) (*review.Mark, error) {
	err := w.reviewer.Restore(w.ctx, mark)
	if errors.Is(err, review.ErrNotRestored) {
		return nil, w.close()
	}
	return mark, err
}
