// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"fmt"
	"slices"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/wholefile"
)

// Fixed are the files that Fix changed.
type Fixed struct {
	// Texts are their new contents, by their names.
	Texts map[string][]byte
	// Count is the number of findings that are fixed.
	Count int
	// Notes say which patches could not be written, and which files could not be replaced as a whole.
	Notes []string
}

// maxRounds bounds how often files are checked again: once for each patch of an object.
const maxRounds = 500

// Fix applies the safe patches to the texts of the files, and sets o to what is in them then. It writes no file.
func Fix(ctx context.Context, o *Options) (*Fixed, error) {
	fixed := &Fixed{Texts: map[string][]byte{}}
	for range maxRounds {
		alone := *o
		alone.alone = true
		report, err := Check(ctx, alone)
		if err != nil {
			return nil, err
		}
		var safe []*Finding
		for i := range report.Findings {
			f := &report.Findings[i]
			if _, ok := o.Texts[f.document.Source.File]; ok && f.Safe && len(f.Patch) > 0 && f.document.Source.File != "-" {
				safe = append(safe, f)
			}
		}
		lastFirst := slices.Clone(safe) // so that the lines of the objects before stay
		slices.SortStableFunc(lastFirst, func(a, b *Finding) int { return b.document.Source.Line - a.document.Source.Line })
		changed, patched, failed := map[string]bool{}, map[input.Source]bool{}, map[*Finding]error{}
		for _, f := range lastFirst {
			source := f.document.Source
			if patched[source] {
				continue // the next round knows what is left to do
			}
			after, err := patchText(string(o.Texts[source.File]), f.document, f.Patch)
			if err != nil {
				failed[f] = err
				continue
			}
			o.Texts[source.File] = []byte(after)
			changed[source.File], patched[source] = true, true
			fixed.Count++
		}
		if len(changed) == 0 {
			for _, f := range safe {
				fixed.Notes = append(fixed.Notes, fmt.Sprintf("%s: %s of %s isn't fixed: %v", f.Source, f.ID, f.title(), failed[f]))
			}
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

// Write writes the files. It adds a note for a file that could not be replaced as a whole.
func (f *Fixed) Write() error {
	for _, file := range sortedKeys(f.Texts) {
		note, err := wholefile.Replace(file, f.Texts[file], 0o644)
		if err != nil {
			return err
		}
		if note != "" {
			f.Notes = append(f.Notes, note)
		}
	}
	return nil
}
