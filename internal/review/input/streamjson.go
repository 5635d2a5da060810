// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// readJSON reads JSON objects that follow each other, and the items of lists among them.
func (s *stream) readJSON(in *bufio.Reader) error {
	lines := &lineCounter{in: in, begins: true}
	decoder := json.NewDecoder(lines)
	fail := func(err error) error {
		if ctxErr := s.ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			err = fmt.Errorf("this is no JSON: %w", err)
		} else if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = errors.New("the file ends within an object: it is cut off")
		}
		return &Error{Source: Source{s.name, lines.at(decoder.InputOffset())}, Err: err}
	}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && token != json.Delim('{') {
			err = fmt.Errorf("no object: it begins with %v", token)
		}
		if err != nil {
			return fail(err)
		}
		if told, err := s.readValue(decoder, lines); err != nil {
			if told {
				return err
			}
			return fail(err)
		}
	}
}

// readValue reads the fields of a JSON object after its brace. told reports whether the error is the
// caller's.
func (s *stream) readValue(decoder *json.Decoder, lines *lineCounter) (told bool, _ error) {
	begin := lines.at(decoder.InputOffset())
	fields, isList := map[string]json.RawMessage{}, false
	lines.budget = MaxFile
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return false, err
		}
		name, _ := key.(string)
		if name != "items" {
			var raw json.RawMessage
			if err := decoder.Decode(&raw); err != nil {
				return false, err
			}
			fields[name] = raw
			continue
		}
		isList = true
		bracket, err := decoder.Token()
		if err != nil {
			return false, err
		}
		if bracket == nil {
			continue // null
		}
		if bracket != json.Delim('[') {
			return false, errors.New("items must be a list")
		}
		for decoder.More() {
			lines.budget = MaxFile
			var raw json.RawMessage
			if err := decoder.Decode(&raw); err != nil {
				return false, err
			}
			text := withKind(raw, fields)
			line := lines.at(decoder.InputOffset()) - bytes.Count(raw, []byte("\n"))
			if err := s.tell(part{text, line}, true); err != nil {
				return true, err
			}
		}
		if _, err := decoder.Token(); err != nil { // the bracket's end
			return false, err
		}
	}
	if _, err := decoder.Token(); err != nil { // the brace's end
		return false, err
	}
	if isList {
		return true, nil
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return false, err
	}
	return true, s.tell(part{text, begin}, true)
}

// withKind gives an item of a PodList, for example, that has no kind, the list's, as far as it was read.
func withKind(item json.RawMessage, list map[string]json.RawMessage) []byte {
	var has, of struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	_ = json.Unmarshal(item, &has) // the error shows when it is decoded
	_ = json.Unmarshal(list["kind"], &of.Kind)
	_ = json.Unmarshal(list["apiVersion"], &of.APIVersion)
	kind, ok := strings.CutSuffix(of.Kind, "List")
	rest, isObject := bytes.CutPrefix(item, []byte("{"))
	if has.Kind != "" || !ok || kind == "" || !isObject {
		return item
	}
	head := fmt.Sprintf(`{"kind":%q,"apiVersion":%q`, kind, of.APIVersion)
	if !bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		head += ","
	}
	return slices.Concat([]byte(head), rest)
}

// A lineCounter is a reader that knows on which line an offset is. It leaves out lines that divide
// documents, which can't be in a JSON value. It fails if more than budget bytes are read.
type lineCounter struct {
	in      *bufio.Reader
	pending []byte
	// begins reports whether a line begins after the pending bytes.
	begins bool
	read   int64
	budget int
	// line is the number of lines that end before the offset of the last call of at, ends the offsets of
	// the later ones.
	line int
	ends []int64
}

// Read implements io.Reader.
func (l *lineCounter) Read(p []byte) (int, error) {
	if len(l.pending) == 0 {
		chunk, err := l.in.ReadSlice('\n')
		if len(chunk) == 0 {
			return 0, err
		}
		if text := string(bytes.TrimSpace(chunk)); l.begins && (text == "---" || text == "...") {
			chunk = []byte("\n")
		}
		l.pending, l.begins = chunk, bytes.HasSuffix(chunk, []byte("\n"))
	}
	if l.budget < 0 {
		return 0, errTooLarge
	}
	n := copy(p, l.pending)
	l.budget -= n
	for at, c := range p[:n] {
		if c == '\n' {
			l.ends = append(l.ends, l.read+int64(at))
		}
	}
	l.read += int64(n)
	l.pending = l.pending[n:]
	return n, nil
}

// at returns the line of an offset, which must not be before that of an earlier call.
func (l *lineCounter) at(offset int64) int {
	passed, _ := slices.BinarySearch(l.ends, offset)
	l.line += passed
	l.ends = slices.Delete(l.ends, 0, passed)
	return l.line + 1
}
