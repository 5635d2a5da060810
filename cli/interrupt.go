// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/scratch"
)

// endsAfter is the time that an interrupted command has to print what it has, and to end its server.
const endsAfter = 900 * time.Millisecond

// endInterrupted makes a command that isn't a server end within a second after it was interrupted, whatever it waits
// for, such as the other end of a pipe. Any error of an interrupted command is ErrInterrupted. isVerdict reports
// whether the command gives a verdict; then the exit code says that there is none.
func endInterrupted(c *cobra.Command, isVerdict bool) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		ended, interrupted := make(chan error, 1), c.Context().Done()
		go func() { ended <- run(c, args) }()
		select {
		case err = <-ended:
			err = finish(c, err)
		case <-interrupted:
			select {
			case err = <-ended:
				err = finish(c, err)
			case <-time.After(endsAfter):
				scratch.RemoveAll()
				err = commandline.ErrInterrupted
			}
		}
		if isVerdict && errors.Is(err, commandline.ErrInterrupted) {
			err = commandline.Usage(err) // whose code is review.ExitFailed, too
		}
		return err
	}
	return c
}

// finish returns the error of a command. It replaces any error of an interrupted command by ErrInterrupted.
func finish(c *cobra.Command, err error) error {
	if err != nil && c.Context().Err() != nil {
		return commandline.ErrInterrupted
	}
	return err
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
func standardInput(c *cobra.Command) io.Reader { return input.Until(c.Context(), c.InOrStdin()) }
