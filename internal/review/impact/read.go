// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxElement is the number of bytes that a result of a report, or what is before the results, may have.
const maxElement = 64 << 20

// Read reads a report in JSON, as -o json writes it, and calls each with each result. It holds one result at a
// time. An error of each ends it.
func Read(r io.Reader, each func(*Result) error) (*Document, error) {
	bounded := &boundedReader{Reader: r, left: maxElement}
	decoder := json.NewDecoder(bounded)
	document := &Document{}
	fields := map[string]any{"apiVersion": &document.APIVersion, "kind": &document.Kind, "summary": &document.Summary,
		"errors": &document.Errors, "notes": &document.Notes}
	read := map[string]bool{}
	err := expect(decoder, json.Delim('{'))
	for err == nil && decoder.More() {
		var name json.Token
		if name, err = decoder.Token(); err != nil {
			break
		}
		field, _ := name.(string)
		into := fields[field]
		switch {
		case read[field]:
			err = fmt.Errorf("it has %q twice", field)
		case field == "results":
			err = readResults(decoder, bounded, each)
		case into == nil:
			err = fmt.Errorf("%q is not a field of a report", field)
		default:
			err = decoder.Decode(into)
		}
		read[field] = true
	}
	if err == nil {
		err = expect(decoder, json.Delim('}'))
	}
	if err == nil {
		err = checkRead(decoder, document, read)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a report of -o json: %w", err)
	}
	return document, nil
}

// Load reads a report in JSON, as -o json writes it. It returns the report as it was, apart from what it doesn't
// list: unless the report has all results, there is nothing of those that don't differ.
func Load(r io.Reader, o Options) (*Report, error) {
	o.ShowAll = true // what the report lists
	results, err := newSpill()
	if err != nil {
		return nil, err
	}
	document, err := Read(r, results.add)
	if err == nil {
		err = results.flush()
	}
	if err != nil {
		return nil, errors.Join(err, results.close())
	}
	// The kind, which the groups depend on, may follow the results.
	report := &Report{kind: document.Kind, options: o, summary: document.Summary, notes: document.Notes, results: results,
		problems: document.Errors, groups: newGroups(document.Kind, o.Remedies)}
	for result, err := range results.results() {
		if err != nil {
			return nil, errors.Join(err, results.close())
		}
		if !result.Differs || result.Known || result.Unjudged != "" {
			continue
		}
		for _, p := range result.policies() {
			report.groups.add(result, p)
		}
	}
	return report, nil
}

// readResults reads the results.
func readResults(decoder *json.Decoder, bounded *boundedReader, each func(*Result) error) error {
	if err := expect(decoder, json.Delim('[')); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	for i := 0; decoder.More(); i++ {
		bounded.left = maxElement
		r := &Result{}
		err := decoder.Decode(r)
		if err == nil && (r.Object.Kind == "" || r.Request.Operation == "") {
			err = errors.New("it has no object or no request")
		}
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	bounded.left = maxElement
	return expect(decoder, json.Delim(']'))
}

// checkRead checks what was read of a report, and that nothing follows it.
func checkRead(decoder *json.Decoder, d *Document, read map[string]bool) error {
	switch {
	case d.APIVersion != APIVersion || d.Kind != Audit && d.Kind != Replay:
		return fmt.Errorf("it is %q of %q, and neither %s nor %s of %s", d.Kind, d.APIVersion, Audit, Replay, APIVersion)
	case !read["summary"] || !read["results"]:
		return errors.New("it has no summary or no results")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the report")
	}
	return nil
}

// expect reads a delimiter.
func expect(decoder *json.Decoder, want json.Delim) error {
	token, err := decoder.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && token != want {
		err = fmt.Errorf("there is %v where %v belongs", token, want)
	}
	return err
}

// A boundedReader fails after a number of bytes.
type boundedReader struct {
	io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("a part of it has more than %d bytes", maxElement)
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
