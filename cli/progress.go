// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress shows the progress of long work on a terminal.
type progress struct {
	out  io.Writer // nil for no terminal
	last int
}

func newProgress(out io.Writer) *progress {
	if file, ok := out.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
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
		if percent := done * 100 / all; percent != p.last {
			p.last = percent
			fmt.Fprintf(p.out, "\r\x1b[K%s: %d of %d", work, done, all)
		}
	}
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
			p.last = done
			fmt.Fprintf(p.out, "\r\x1b[K%s: %d %s", work, done, of)
		}
	}
}

// done clears the line.
func (p *progress) done() {
	if p.out != nil && p.last >= 0 {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.last = -1
	}
}
