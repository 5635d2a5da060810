// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

var (
	errNoObject = errors.New("not a Kubernetes object")
	errTooLong  = errors.New("record is too long")
)

// An events source returns events in the order of a log, and io.EOF at its end.
type events interface {
	next() (*event, error)
}

// file reads a log from a file or another stream.
type file struct {
	name   string
	limit  int
	in     *bufio.Reader
	close  func() error
	events events
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
	f.in = bufio.NewReaderSize(&counter{from, &r.read}, bufferBytes)
	if magic, _ := f.in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(f.in)
		if err != nil {
			_ = close()
			return nil, fmt.Errorf("reading %s: its gzip header is broken: %w", name, err)
		}
		f.in = bufio.NewReaderSize(unzipped, bufferBytes)
	}
	f.events = &lines{file: f}
	if f.isDocument() {
		f.events = newDocument(f)
	}
	return f, nil
}

// openFile begins to read a file. It reads no further than where the file ends now, so that a log
// that is being written has an end.
func (r *Reader) openFile(name string) (*file, error) {
	opened, err := os.Open(name)
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

// isDocument reports whether the stream has documents of several lines: its first line is the
// beginning of an object and no more.
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

// Read reads for the documents' decoder.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.in.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		f.cut, err = true, io.EOF
	}
	return n, err
}

// lines reads a log with a record on each line.
type lines struct {
	*file
	line    int
	pending []*event
}

func (l *lines) next() (*event, error) {
	for {
		if len(l.pending) > 0 {
			e := l.pending[0]
			l.pending[0], l.pending = nil, l.pending[1:]
			return e, nil
		}
		line, complete, err := l.readLine()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		source := Source{File: l.name, Line: l.line}
		e, err := readEvent(line, source)
		switch {
		case err != nil && !complete && errors.Is(err, errEnded):
			l.note("%s: the last line isn't complete and was left out", source)
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("%s: the line isn't a JSON object; recorded requests are audit events or "+
				"AdmissionReviews, one a line", source)
		case e.kind != eventListLine:
			return e, nil
		}
		if err := l.addItems(e); err != nil {
			return nil, err
		}
	}
}

// addItems adds the events of a list to those that are pending.
func (l *lines) addItems(of *event) error {
	if isNull(of.items) {
		return nil
	}
	err := eachElement(of.items, func(item []byte) error {
		e, err := readEvent(bytes.Clone(item), of.source) // so that it doesn't hold the list
		if err == nil {
			l.pending = append(l.pending, e)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: the items of the EventList must be audit events", of.source)
	}
	return nil
}

// readLine returns the next line in memory of its own. complete reports whether it has an end.
func (l *lines) readLine() (line []byte, complete bool, err error) {
	l.line++
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > l.limit {
			return nil, false, tooLong(Source{l.name, l.line}, l.limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.ErrUnexpectedEOF): // of gzip
			l.cut = true
			err = io.EOF
			fallthrough
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				return line, false, nil
			}
			if l.cut {
				l.note("%s: the compressed file ends early, after line %d", l.name, l.line-1)
			}
			return nil, false, io.EOF
		default:
			return nil, false, fmt.Errorf("reading %s: %w", l.name, err)
		}
	}
}

func tooLong(at Source, limit int) error {
	return fmt.Errorf("%s: %w: it has more than %d bytes; raise MaxRecordBytes", at, errTooLong, limit)
}

// document reads a log of JSON documents that take several lines, such as an EventList as it is
// pretty-printed. Items of a list are read one by one.
type document struct {
	*file
	decoder *json.Decoder
	budget  int
	// read is the offset up to which newlines has the offsets of line ends that line hasn't passed.
	read     int64
	newlines []int64
	line     int
	// others has the members of the object that is being read; inItems is true within its items.
	others  map[string]json.RawMessage
	inItems bool
}

func newDocument(f *file) *document {
	d := &document{file: f, line: 1}
	d.decoder = json.NewDecoder(readerFunc(d.fill))
	return d
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// fill reads for the decoder, no more than the budget.
func (d *document) fill(p []byte) (int, error) {
	if d.budget <= 0 {
		return 0, errTooLong
	}
	n, err := d.file.Read(p[:min(len(p), d.budget)])
	for i, c := range p[:n] {
		if c == '\n' {
			d.newlines = append(d.newlines, d.read+int64(i))
		}
	}
	d.budget -= n
	d.read += int64(n)
	return n, err
}

// source returns where the decoder is.
func (d *document) source() Source {
	passed := 0
	for passed < len(d.newlines) && d.newlines[passed] <= d.decoder.InputOffset() {
		passed++
	}
	d.newlines, d.line = d.newlines[passed:], d.line+passed
	return Source{d.name, d.line}
}

func (d *document) next() (*event, error) {
	e, err := d.advance()
	switch {
	case err == nil, errors.Is(err, io.EOF) && d.others == nil && !d.cut:
		return e, err
	case errors.Is(err, errTooLong):
		return nil, tooLong(d.source(), d.limit)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.note("%s: the last document isn't complete: what is missing was left out", d.source())
		d.others = nil
		return nil, io.EOF
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || errors.Is(err, errSyntax) {
		return nil, fmt.Errorf("%s: the document isn't JSON that holds audit events or AdmissionReviews", d.source())
	}
	return nil, fmt.Errorf("reading %s: %w", d.name, err)
}

// advance returns the next event of the current document or of the next one.
func (d *document) advance() (*event, error) {
	for {
		d.budget = d.limit
		if d.inItems {
			if d.decoder.More() {
				var item json.RawMessage
				if err := d.decoder.Decode(&item); err != nil {
					return nil, err
				}
				return readEvent(item, d.source())
			}
			if _, err := d.decoder.Token(); err != nil { // ]
				return nil, err
			}
			d.inItems = false
		}
		if d.others == nil {
			token, err := d.decoder.Token()
			if err != nil {
				return nil, err
			}
			if token != json.Delim('{') {
				return nil, errSyntax
			}
			d.others = map[string]json.RawMessage{}
		}
		name, err := d.decoder.Token()
		if err != nil {
			return nil, err
		}
		if name == json.Delim('}') {
			whole, err := json.Marshal(d.others)
			isList := d.others["items"] != nil
			if d.others = nil; err != nil || isList {
				continue
			}
			return readEvent(whole, d.source())
		}
		member, _ := name.(string)
		if member == "items" {
			d.others["items"] = json.RawMessage("[]")
			token, err := d.decoder.Token()
			if err != nil {
				return nil, err
			}
			switch token {
			case json.Delim('['):
				d.inItems = true
			case nil:
			default:
				return nil, errSyntax
			}
			continue
		}
		var value json.RawMessage
		if err := d.decoder.Decode(&value); err != nil {
			return nil, err
		}
		d.others[member] = value
	}
}
