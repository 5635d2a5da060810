package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"gatehouse.dev/internal/commandline"
)

// errInterrupted is how a command ends that was told to stop before there was what it is for.
var errInterrupted = errors.New("interrupted before it was done")

// done is how a command ends that is there for something: where it was interrupted before that was
// done, it says so. A server that is told to stop has done what it was there for.
func done(c *cobra.Command, err error) error {
	if err != nil && c.Context().Err() != nil {
		return errInterrupted
	}
	return err
}

// judged is done for a command that is about a verdict. Its code says that there is none.
func judged(c *cobra.Command, err error) error {
	if err = done(c, err); errors.Is(err, errInterrupted) {
		return commandline.Usage(err) // whose code is review.ExitFailed, too
	}
	return err
}

// untilEnd reads until a context ends, at a terminal or a pipe to which nobody writes, too.
type untilEnd struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader. Of what is read after the context has ended nobody gets anything.
func (r untilEnd) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	type read struct {
		n   int
		err error
	}
	own := make([]byte, len(p)) // p is the caller's again, once this returns
	reads := make(chan read, 1)
	go func() {
		n, err := r.in.Read(own)
		reads <- read{n, err}
	}()
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case read := <-reads:
		return copy(p, own[:read.n]), read.err
	}
}

// standardInput is the standard input of a command, which ends when the command is interrupted.
func standardInput(c *cobra.Command) io.Reader { return untilEnd{c.Context(), c.InOrStdin()} }
