// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"gatehouse.dev/internal/terminal"
)

// progress shows the progress of long work on a terminal, in one line.
type progress struct {
	out io.Writer // nil for no terminal

	mu sync.Mutex
	// last is the last percentage or count that was shown, -1 for none.
	last int
	// shown reports whether the line has a text.
	shown bool
}

func newProgress(out io.Writer) *progress {
	if !terminal.IsTerminal(out) {
		return &progress{last: -1}
	}
	return &progress{out: out, last: -1}
}

// longWork is the number of steps from which progress is shown.
const longWork = 20

// report returns a function that shows the progress of one kind of work, if it is long.
func (p *progress) report(work string) func(done, all int) {
	return func(done, all int) {
		if p.out == nil || all < longWork {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if percent := done * 100 / all; percent != p.last {
			p.last = percent
			p.show("%s: %d of %d", work, done, all)
		}
	}
}

// show writes the line. The caller holds the lock.
func (p *progress) show(format string, args ...any) {
	p.shown = true
	fmt.Fprintf(p.out, terminal.ClearLine+format, args...)
}

// bytes returns a function that shows the progress of work in bytes, in mebibytes.
func (p *progress) bytes(work string) func(done, all int64) {
	show := p.report(work + " (MiB)")
	return func(done, all int64) { show(int(done>>20), int(all>>20)) }
}

// count returns a function that shows how many of something are done, if it isn't known how many there are.
func (p *progress) count(work, of string) func(done int) {
	return func(done int) {
		if p.out != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.last = done
			p.show("%s: %d %s", work, done, of)
		}
	}
}

// during shows work of which nothing but its time is known, from its second second on. The returned function
// ends that. Meanwhile a report, which says more, takes precedence.
func (p *progress) during(work string) (end func()) {
	if p.out == nil {
		return func() {}
	}
	began, ended, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
			}
			p.mu.Lock()
			if p.last < 0 {
				p.show("%s: %d s", work, int(time.Since(began).Seconds()))
			}
			p.mu.Unlock()
		}
	}()
	return func() {
		close(ended)
		<-stopped
		p.done()
	}
}

// done clears the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, terminal.ClearLine)
	}
	p.last, p.shown = -1, false
}
