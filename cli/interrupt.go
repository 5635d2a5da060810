// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/commandline"
)

// finish returns the error of a command that isn't a server. It replaces any error of an interrupted
// command by ErrInterrupted.
func finish(c *cobra.Command, err error) error {
	if err != nil && c.Context().Err() != nil {
		return commandline.ErrInterrupted
	}
	return err
}

// finishVerdict is finish for a command that gives a verdict. The exit code of an interruption says that
// there is none.
func finishVerdict(c *cobra.Command, err error) error {
	if err = finish(c, err); errors.Is(err, commandline.ErrInterrupted) {
		return commandline.Usage(err) // whose code is review.ExitFailed, too
	}
	return err
}

// contextReader reads until a context ends, even if a terminal or a pipe sends nothing.
type contextReader struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader. It drops what arrives after the context has ended.
func (r contextReader) Read(p []byte) (int, error) {
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

// interruptible makes all requests of a client end with the context. It is needed because parts of
// client-go, such as discovery, take no context.
func interruptible(ctx context.Context, config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			request, cancel := context.WithCancel(r.Context())
			forget := context.AfterFunc(ctx, cancel)
			end := func() {
				forget()
				cancel()
			}
			answer, err := next.RoundTrip(r.WithContext(request))
			if err != nil {
				end()
				return nil, err
			}
			answer.Body = endingBody{answer.Body, end}
			return answer, nil
		})
	})
}

// endingBody is a body that calls end when it is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// standardInput returns the standard input of a command. It ends when the command is interrupted.
func standardInput(c *cobra.Command) io.Reader { return contextReader{c.Context(), c.InOrStdin()} }
