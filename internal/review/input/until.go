// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"io"
	"os"
)

// Until returns a reader whose reads end with a context, even if a terminal or a pipe sends nothing. What arrives
// after that is dropped.
func Until(ctx context.Context, in io.Reader) io.Reader { return untilReader{ctx, in} }

type untilReader struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (r untilReader) Read(p []byte) (int, error) {
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

// OpenUntil calls open, which waits for the other end of a pipe, and returns what it opened, or the error of a context
// that ends first.
func OpenUntil(ctx context.Context, open func() (*os.File, error)) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened)
	go func() {
		file, err := open()
		select {
		case done <- opened{file, err}:
		case <-ctx.Done():
			_ = file.Close() // of nil, if it isn't open
		}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
