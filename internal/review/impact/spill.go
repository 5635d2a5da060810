package impact

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// A spill keeps results in a temporary file that has no name, as lines of JSON.
type spill struct {
	file   *os.File
	writer *bufio.Writer
	count  int
}

func newSpill() (*spill, error) {
	file, err := os.CreateTemp("", "gatehouse-report-") // its mode is 0600
	if err != nil {
		return nil, fmt.Errorf("making a temporary file for the results: %w", err)
	}
	s := &spill{file: file, writer: bufio.NewWriterSize(file, 64<<10)}
	// Not every system removes a file that is open. Then close does it.
	_ = os.Remove(file.Name())
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

// lines returns the results in JSON, in the order in which they were added. A line is valid until the next one.
func (s *spill) lines() iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		decoder := json.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(s.file, 0, 1<<62), 64<<10))
		for range s.count {
			var line json.RawMessage
			if err := decoder.Decode(&line); err != nil {
				yield(nil, fmt.Errorf("reading the results from their temporary file: %w", err))
				return
			}
			if !yield(line, nil) {
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
	if removed := os.Remove(s.file.Name()); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}
