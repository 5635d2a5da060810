// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
)

// readYAML reads documents that lines divide, and the items of lists among them, that lines divide, too.
func (s *stream) readYAML(in *bufio.Reader) error {
	d := &divider{tell: s.tell}
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return s.at(d.line+1, fileError(s.name, err))
		}
		ended := err != nil
		if len(line) > 0 {
			if err := d.add(line); err != nil {
				return s.at(d.line, err)
			}
		}
		if ended {
			return s.at(d.line, d.flush())
		}
	}
}

// at gives an error of the divider its place. Others are returned as they are.
func (s *stream) at(line int, err error) error {
	if errors.Is(err, errTooLarge) || errors.Is(err, errItems) {
		return &Error{Source: Source{s.name, line}, Err: err}
	}
	return err
}

// readLine returns a line with its end. It returns an error if the line is too long.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		more, err := in.ReadSlice('\n')
		if line = append(line, more...); len(line) > MaxFile {
			return nil, errTooLarge
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// A divider divides the lines of a YAML stream into documents, and lists into their items.
type divider struct {
	tell func(p part, item bool) error
	line int // the number of the last line
	// text has the lines of the present part, which begins at line begin; 0 if it hasn't begun.
	text  bytes.Buffer
	begin int
	// list reports whether the lines are those of a list's items, which begin at column indent; -1 if the
	// first one hasn't come.
	list   bool
	indent int
	// isList reports whether the present document has been found to be a list.
	isList bool
}

// errItems is the error of a list that can't be divided.
var errItems = errors.New(`the items of a list must begin with "- ", each on a line of its own`)

// itemsLine begins the items of a list.
var itemsLine = regexp.MustCompile(`^items:(\s+#.*)?\s*$`)

// add takes the next line.
func (d *divider) add(line []byte) error {
	d.line++
	if separatorLine.Match(line) {
		return d.flush()
	}
	trimmed := bytes.TrimSpace(line)
	isContent := len(trimmed) > 0 && trimmed[0] != '#'
	if d.list && isContent {
		at := len(line) - len(bytes.TrimLeft(line, " "))
		isItem := trimmed[0] == '-' && (len(trimmed) == 1 || trimmed[1] == ' ')
		if d.indent < 0 && isItem {
			d.indent = at
		}
		switch {
		case isItem && at == d.indent:
			if err := d.take(true); err != nil {
				return err
			}
			// The item is a document of its own, whose first line is indented as its others.
			line = bytes.Replace(line, []byte("-"), []byte(" "), 1)
			trimmed = bytes.TrimSpace(line)
			isContent = len(trimmed) > 0 && trimmed[0] != '#'
		case d.indent < 0 && at > 0:
			return errItems
		case at <= d.indent || d.indent < 0:
			if err := d.take(true); err != nil {
				return err
			}
			d.list = false
		}
	}
	if !d.list && itemsLine.Match(bytes.TrimRight(line, "\r\n")) {
		d.list, d.isList, d.indent = true, true, -1
		d.text.Reset() // the list's own kind says nothing
		d.begin = 0
		return nil
	}
	if d.begin == 0 && isContent && !bytes.HasPrefix(trimmed, []byte("%YAML")) {
		d.begin = d.line
		d.text.Reset()
	}
	d.text.Write(line)
	if d.text.Len() > MaxFile {
		return errTooLarge
	}
	return nil
}

// take passes the present part on, if it has begun.
func (d *divider) take(item bool) error {
	p := part{bytes.Clone(d.text.Bytes()), d.begin}
	d.text.Reset()
	d.begin = 0
	if p.line == 0 {
		return nil
	}
	return d.tell(p, item)
}

// flush ends a document. What a list has beside its items is dropped.
func (d *divider) flush() error {
	item, dropped := d.list, d.isList && !d.list
	d.list, d.isList = false, false
	if dropped {
		d.text.Reset()
		d.begin = 0
	}
	return d.take(item)
}
