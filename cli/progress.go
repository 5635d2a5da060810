package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress shows on a terminal how far long work is.
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

// longWork is from how many steps on it is shown how many are done.
const longWork = 20

// of shows one kind of work, where there is much of it.
func (p *progress) of(work string) func(done, all int) {
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

// bytes shows work that is measured in bytes, in mebibytes.
func (p *progress) bytes(work string) func(done, all int64) {
	show := p.of(work + " (MiB)")
	return func(done, all int64) { show(int(done>>20), int(all>>20)) }
}

// done clears the line.
func (p *progress) done() {
	if p.out != nil && p.last >= 0 {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.last = -1
	}
}
