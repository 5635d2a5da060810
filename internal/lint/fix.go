// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"fmt"
	"os"
	"slices"

	"gatehouse.dev/internal/review/input"
)

// Fixed are the files that Fix changed.
type Fixed struct {
	// Texts are their new contents, by their names.
	Texts map[string][]byte
	// Count is the number of findings that are fixed.
	Count int
	// Notes say which patches could not be written.
	Notes []string
}

// maxRounds bounds how often files are checked again: once for each patch of an object.
const maxRounds = 50

// Fix applies the safe patches to the texts of the files, and sets o to what is in them then. It writes no file.
func Fix(ctx context.Context, o *Options) (*Fixed, error) {
	fixed := &Fixed{Texts: map[string][]byte{}}
	failed := map[string]bool{}
	for range maxRounds {
		unasked := *o // no patch depends on what webhooks answer
		unasked.Ask, unasked.LocalWebhooks = false, nil
		report, err := Check(ctx, unasked)
		if err != nil {
			return nil, err
		}
		changed := map[string]bool{}
		done := map[input.Source]bool{}
		// From the end, so that the lines before stay.
		for _, f := range slices.Backward(report.Findings) {
			d := o.documentOf(&f)
			key := fmt.Sprint(f.ID, f.Object, f.Part)
			text, ok := o.Texts[d.Source.File]
			if !f.Safe || len(f.Patch) == 0 || !ok || failed[key] || done[d.Source] || d.Source.File == "-" {
				continue
			}
			after, err := patchText(d.Source.File, string(text), d, f.Patch)
			if err != nil {
				failed[key] = true
				fixed.Notes = append(fixed.Notes, fmt.Sprintf("%s: %s of %s isn't fixed: %v", f.Source, f.ID, f.title(), err))
				continue
			}
			o.Texts[d.Source.File] = []byte(after)
			done[d.Source], changed[d.Source.File] = true, true
			fixed.Count++
		}
		if len(changed) == 0 {
			return fixed, nil
		}
		if err := o.readAgain(changed); err != nil {
			return nil, err
		}
		for file := range changed {
			fixed.Texts[file] = o.Texts[file]
		}
	}
	return fixed, nil
}

// documentOf returns the document of a finding.
func (o *Options) documentOf(f *Finding) input.Document {
	for _, d := range o.Documents {
		if d.Source.File == f.Source.File && objectOf(d.Object) == f.Object {
			return d
		}
	}
	return input.Document{}
}

// readAgain replaces the documents of changed files.
func (o *Options) readAgain(changed map[string]bool) error {
	var documents []input.Document
	read := map[string]bool{}
	for _, d := range o.Documents {
		if !changed[d.Source.File] {
			documents = append(documents, d)
			continue
		}
		if read[d.Source.File] {
			continue
		}
		read[d.Source.File] = true
		found, errs := parseText(d.Source.File, o.Texts[d.Source.File])
		if len(errs) > 0 {
			return errs[0]
		}
		documents = append(documents, found...)
	}
	o.Documents = documents
	return nil
}

// Write writes the files.
func (f *Fixed) Write() error {
	for _, file := range sortedKeys(f.Texts) {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, f.Texts[file], info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}
