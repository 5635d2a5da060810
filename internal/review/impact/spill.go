// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
)

// A spill keeps results in a temporary file that has no name, as lines of JSON.
type spill struct {
	file   *os.File
	writer *bufio.Writer
	count  int
	// name is the name of the file if the system doesn't remove a file that is open.
	name string
}

func newSpill() (*spill, error) {
	file, err := os.CreateTemp("", "gatehouse-report-") // its mode is 0600
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for the results: %w", err)
	}
	s := &spill{file: file, writer: bufio.NewWriterSize(file, 64<<10)}
	if os.Remove(file.Name()) != nil {
		s.name = file.Name()
	}
	return s, nil
}

// add appends a result.
func (s *spill) add(r *Result) error {
	encoder := json.NewEncoder(s.writer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("keeping the result about %s in a temporary file: %w", r.Object, err)
	}
	s.count++
	return nil
}

// flush makes what was added readable.
func (s *spill) flush() error {
	if err := s.writer.Flush(); err != nil {
		return fmt.Errorf("keeping the results in a temporary file: %w", err)
	}
	return nil
}

// lines returns the results in JSON, in the order in which they were added.
func (s *spill) lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		reader := bufio.NewReaderSize(io.NewSectionReader(s.file, 0, math.MaxInt64), 64<<10)
		for range s.count {
			line, err := reader.ReadBytes('\n')
			if err != nil {
				yield(nil, fmt.Errorf("reading the results from their temporary file: %w", err))
				return
			}
			if !yield(bytes.TrimSuffix(line, []byte("\n")), nil) {
				return
			}
		}
	}
}

// results returns the results in the order in which they were added.
func (s *spill) results() iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		for line, err := range s.lines() {
			r := &Result{}
			if err == nil {
				err = json.Unmarshal(line, r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// close drops the file.
func (s *spill) close() error {
	err := s.file.Close()
	if s.name != "" {
		err = errors.Join(err, os.Remove(s.name))
	}
	return err
}
