// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
)

// Each calls do with each object of files, of directories with everything below them, and of Stdin if a
// path is "-", one after the other. A part that can't be read is passed as its Error. Each returns an error
// if a file can't be read to its end, or if do returns one.
//
// At any time the memory has one object, or one document if it isn't a list as kubectl writes them, so
// that files may have any size. A list in YAML is read item by item if "items:" begins a line. JSON is read
// item by item if its first character is "{" and a quote follows. Items of such lists must have an
// apiVersion and a kind; in JSON those of a PodList, for example, needn't.
func (r *Reader) Each(ctx context.Context, paths []string, do func(Document, *Error) error) error {
	for _, path := range paths {
		in := r.Streams[path]
		if path == "-" && in == nil {
			in = r.Stdin
		}
		if in != nil {
			if err := r.stream(ctx, path, in, false, do); err != nil {
				return err
			}
			continue
		}
		var rendered []rendering
		files, errs := interruptible(ctx, func() (files []string, errs []error) {
			files, rendered, errs = r.find(ctx, path)
			return files, errs
		})
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
		for _, done := range rendered {
			for _, d := range done.documents {
				if r.Wanted != nil && !r.Wanted(d.Object.GroupVersionKind()) {
					continue
				}
				if err := do(d, nil); err != nil {
					return err
				}
			}
		}
		for _, file := range files {
			if err := r.eachOfFile(ctx, file, file != path, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachOfFile calls do with each object of a file.
func (r *Reader) eachOfFile(ctx context.Context, path string, listed bool, do func(Document, *Error) error) error {
	file, err := OpenUntil(ctx, func() (*os.File, error) { return r.Within.Open(path) })
	if err != nil {
		return fileError(path, err)
	}
	defer file.Close()
	return r.stream(ctx, path, file, listed, do)
}

// headBytes is how much of a file is looked at to find out what it is.
const headBytes = 64 << 10

// jsonStart matches the beginning of JSON objects.
var jsonStart = regexp.MustCompile(`^\s*\{\s*"`)

// stream calls do with each object of a stream.
func (r *Reader) stream(ctx context.Context, name string, in io.Reader, listed bool,
	do func(Document, *Error) error) error {
	buffered := bufio.NewReaderSize(Until(ctx, in), headBytes)
	head, err := buffered.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return fileError(name, err)
	}
	if listed && r.leftOut.takes(name, head) {
		return nil
	}
	s := &stream{Reader: r, ctx: ctx, name: name, do: do}
	if jsonStart.Match(head) {
		return s.readJSON(buffered)
	}
	return s.readYAML(buffered)
}

// A stream is a file that is read object by object.
type stream struct {
	*Reader
	ctx  context.Context
	name string
	do   func(Document, *Error) error
}

// errTooLarge is the error of a part that is larger than MaxFile.
var errTooLarge = fmt.Errorf("an object of more than %d MiB", MaxFile>>20)

// tell passes the objects of a part on. item reports whether the part is an item of a list.
func (s *stream) tell(p part, item bool) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	parts := []part{p}
	if !item {
		parts = p.values()
	}
	for _, p := range parts {
		if !s.isWanted(p.text) {
			continue
		}
		documents, err := s.decode(Source{s.name, p.line}, p.text)
		for _, d := range documents {
			if err := s.do(d, nil); err != nil {
				return err
			}
		}
		if err == nil {
			continue
		}
		problem := (*Error)(nil)
		if !errors.As(err, &problem) {
			return err
		}
		if err := s.do(Document{Source: problem.Source, Object: problem.Object}, problem); err != nil {
			return err
		}
	}
	return nil
}
