// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"gatehouse.dev/internal/review/input"
)

var (
	errNoObject = errors.New("not a Kubernetes object")
	errTooLong  = errors.New("record is too long")
)

// file reads a log with a record on each line, from a file or another stream.
type file struct {
	name  string
	limit int
	in    *bufio.Reader
	close func() error
	// line is the number of the present line, pending has the rest of its events.
	line    int
	pending []*event
	// cut says that the stream ended within a compressed block.
	cut bool
	// note is called with something that users should know.
	note func(format string, args ...any)
}

// counter counts what is read.
type counter struct {
	io.Reader
	read *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// bufferBytes is how much is read at once.
const bufferBytes = 64 << 10

// stream begins to read a stream, which may be compressed by gzip.
func (r *Reader) stream(name string, from io.Reader, close func() error) (*file, error) {
	f := &file{name: name, limit: r.options.MaxRecordBytes, close: close, note: r.note}
	f.in = bufio.NewReaderSize(&counter{input.Until(r.ctx, from), &r.read}, bufferBytes)
	if magic, _ := f.in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(f.in)
		if err != nil {
			_ = close()
			return nil, fmt.Errorf("reading %s: its gzip header is broken: %w", name, err)
		}
		f.in = bufio.NewReaderSize(unzipped, bufferBytes)
	}
	if f.isDocument() {
		_ = close()
		return nil, fmt.Errorf("reading %s: its records take several lines, and each must be on one: write them to another "+
			"file with jq -c . %s", name, name)
	}
	return f, nil
}

// openFile begins to read a file. It reads no further than where the file ends now, so that a log
// that is being written has an end.
func (r *Reader) openFile(name string) (*file, error) {
	opened, err := input.OpenUntil(r.ctx, func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, fmt.Errorf("reading recorded requests: %w", err)
	}
	info, err := opened.Stat()
	if err != nil {
		_ = opened.Close()
		return nil, fmt.Errorf("reading recorded requests: %w", err)
	}
	from := io.Reader(opened)
	if info.Mode().IsRegular() {
		from = io.LimitReader(opened, info.Size())
	}
	return r.stream(name, from, opened.Close)
}

// isDocument reports whether the stream has JSON that takes several lines: its first line is the beginning of an object
// and no more.
func (f *file) isDocument() bool {
	begin, err := f.in.Peek(f.in.Size())
	at := skipSpace(begin, 0)
	end := bytes.IndexByte(begin[at:], '\n')
	if end < 0 || begin[at] != '{' {
		return false
	}
	_, ended := skipValue(begin[:at+end], at, 0)
	if ended != errEnded {
		return false
	}
	// A line that was cut off, with another behind it, is no document.
	rest := skipSpace(begin, at+end)
	return rest < len(begin) && begin[rest] != '{' || rest == len(begin) && err == nil
}

// next returns the next event, and io.EOF at the end.
func (f *file) next() (*event, error) {
	for {
		if len(f.pending) > 0 {
			e := f.pending[0]
			f.pending[0], f.pending = nil, f.pending[1:]
			return e, nil
		}
		line, complete, err := f.readLine()
		if errors.Is(err, errTooLong) {
			return &event{source: Source{File: f.name, Line: f.line}, problem: err.Error()}, nil
		}
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		source := Source{File: f.name, Line: f.line}
		e, err := readEvent(line, source)
		switch {
		case err != nil && !complete && errors.Is(err, errEnded):
			f.note("%s: the last line isn't complete and was left out", source)
			return nil, io.EOF
		case err != nil:
			return &event{source: source, problem: notJSON}, nil
		case e.kind != eventListLine:
			return e, nil
		}
		if err := f.addItems(e); err != nil {
			return nil, err
		}
	}
}

// addItems adds the events of a list to those that are pending.
func (f *file) addItems(of *event) error {
	if isNull(of.items) {
		return nil
	}
	err := eachElement(of.items, func(item []byte) error {
		e, err := readEvent(bytes.Clone(item), of.source) // so that it doesn't hold the list
		if err == nil {
			f.pending = append(f.pending, e)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: the items of the EventList must be audit events", of.source)
	}
	return nil
}

// notJSON is the problem of a line that isn't an object.
const notJSON = "the line isn't a JSON object; recorded requests are audit events or AdmissionReviews, one a line"

// readLine returns the next line in memory of its own. complete reports whether it has an end. The rest of a line that
// is too long is passed over.
func (f *file) readLine() (line []byte, complete bool, err error) {
	f.line++
	for {
		part, err := f.in.ReadSlice('\n')
		if len(line)+len(part) > f.limit {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = f.in.ReadSlice('\n')
			}
			return nil, false, fmt.Errorf("%w: it has more than %d bytes", errTooLong, f.limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.ErrUnexpectedEOF): // of gzip
			f.cut = true
			err = io.EOF
			fallthrough
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				return line, false, nil
			}
			if f.cut {
				f.note("%s: the compressed file ends early, after line %d", f.name, f.line-1)
			}
			return nil, false, io.EOF
		default:
			return nil, false, fmt.Errorf("reading %s: %w", f.name, err)
		}
	}
}
