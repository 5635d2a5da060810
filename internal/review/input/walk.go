// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// manifestSuffixes are the suffixes of the files that are read in a directory.
var manifestSuffixes = []string{".yaml", ".yml", ".json"}

// A Reader reads objects. Its zero value reads all objects in files and directories.
type Reader struct {
	// Stdin is read for the path "-".
	Stdin io.Reader
	// Streams, if not nil, has what Each reads in place of the files of these paths.
	Streams map[string]io.Reader
	// Exclude leaves out files and directories below a directory whose name, or whose path from that
	// directory, matches one of these patterns of filepath.Match.
	Exclude []string
	// Lax takes the last of several fields with the same name, as kubectl does. Otherwise such fields
	// are an error.
	Lax bool
	// Within are the folders that all files must be in; nil for any.
	Within Folders
	// Wanted, if not nil, reports whether Each tells objects of a kind. A part whose text shows that it has none is
	// left out unread, even if it has errors.
	Wanted func(schema.GroupVersionKind) bool

	leftOut leftOutFiles
	// seen has the files and directories that were found, by their paths without links.
	seen map[string]bool
}

// Read reads objects from files, from directories with everything below them, and from stdin if a
// path is "-". It returns an Error for each part that can't be read, and all other objects.
func Read(paths []string, stdin io.Reader) ([]Document, []error) {
	return (&Reader{Stdin: stdin}).Read(context.Background(), paths)
}

// Read reads objects from files, from directories with everything below them, and from Stdin if a
// path is "-". It returns an Error for each part that can't be read, and all other objects. A file
// that several paths lead to is read once. If the context ends, Read returns its error at once and
// alone, and the reader can't be used any more.
//
// A directory with a kustomization is rendered, in place of its files and of those that the kustomization names, unless
// another kustomization includes it. In a directory, files that belong to a chart are left out, and so are JSON files
// that are no objects and links to directories. Notes names them.
func (r *Reader) Read(ctx context.Context, paths []string) ([]Document, []error) {
	for _, pattern := range r.Exclude {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return nil, []error{fmt.Errorf("exclude=%s: %w", pattern, err)}
		}
	}
	return interruptible(ctx, func() (documents []Document, errs []error) {
		for _, path := range paths {
			found, err := r.read(ctx, path)
			documents = append(documents, found...)
			errs = append(errs, err...)
		}
		return documents, errs
	})
}

// interruptible calls do, which can't be interrupted, for example because it opens a pipe to which
// nothing writes. If the context ends first, it returns the context's error, and abandons do.
func interruptible[T any](ctx context.Context, do func() ([]T, []error)) ([]T, []error) {
	type done struct {
		found []T
		errs  []error
	}
	result := make(chan done, 1)
	go func() {
		found, errs := do()
		result <- done{found, errs}
	}()
	select {
	case <-ctx.Done():
		return nil, []error{ctx.Err()}
	case d := <-result:
		if err := ctx.Err(); err != nil {
			return nil, []error{err}
		}
		return d.found, d.errs
	}
}

// Notes returns notes about the files that were left out, and how to have them judged.
func (r *Reader) Notes() []string { return r.leftOut.notes() }

func (r *Reader) read(ctx context.Context, path string) ([]Document, []error) {
	if path == "-" {
		return r.readStream(path, r.Stdin, false)
	}
	files, rendered, errs := r.find(ctx, path)
	var documents []Document
	for _, done := range rendered {
		documents = append(documents, done.documents...)
	}
	for _, file := range files {
		if ctx.Err() != nil {
			break
		}
		found, err := r.readFile(file, file != path)
		documents = append(documents, found...)
		errs = append(errs, err...)
	}
	return documents, errs
}

// readFile reads a file. listed reports whether it was found in a directory, and not named itself.
func (r *Reader) readFile(path string, listed bool) ([]Document, []error) {
	file, err := r.Within.Open(path)
	if err != nil {
		return nil, []error{fileError(path, err)}
	}
	defer file.Close()
	return r.readStream(path, file, listed)
}

// readStream reads all documents of a stream.
func (r *Reader) readStream(name string, in io.Reader, listed bool) ([]Document, []error) {
	data, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	if err != nil {
		return nil, []error{fileError(name, err)}
	}
	if len(data) > MaxFile {
		return nil, []error{fileError(name, fmt.Errorf("larger than %d MiB, which is too much at a time: divide it",
			MaxFile>>20))}
	}
	if listed && r.leftOut.takes(name, data) {
		return nil, nil
	}
	return r.parse(name, data)
}

// Files returns the files of a path: itself, or all manifests below a directory, in order, without rendering anything. A
// directory must have at least one. Files that were found before aren't among them. It returns an
// Error for each that can't be read.
func (r *Reader) Files(ctx context.Context, path string) (files []string, errs []error) {
	return interruptible(ctx, func() ([]string, []error) { return r.files(&walk{Reader: r, ctx: ctx, root: path}) })
}

// find returns the files of a path, and what is rendered of its kustomizations.
func (r *Reader) find(ctx context.Context, path string) (files []string, rendered []rendering, errs []error) {
	w := &walk{Reader: r, ctx: ctx, root: path, renders: true}
	files, errs = r.files(w)
	if ctx.Err() != nil || len(w.kustomizations) == 0 {
		return files, nil, errs
	}
	rendered, files = r.renderAll(w.kustomizations, files, w.besides)
	for _, done := range rendered {
		if done.err != nil {
			errs = append(errs, done.err)
		}
	}
	return files, rendered, errs
}

// files returns the files of a walk's root.
func (r *Reader) files(w *walk) (files []string, errs []error) {
	path := w.root
	info, err := r.Within.Stat(path)
	switch {
	case err != nil:
		return nil, []error{fileError(path, err)}
	case info.Mode().IsRegular() && r.markFound(path):
		return nil, nil
	case !info.IsDir():
		return []string{path}, nil
	}
	if w.directory(path); !w.some && w.errs == nil {
		return nil, []error{fileError(path, fmt.Errorf("no manifests in it: no file ends in %s",
			strings.Join(manifestSuffixes, ", ")))}
	}
	return w.files, w.errs
}

// markFound records that a file or a directory was found, and reports whether it was found before.
func (r *Reader) markFound(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return false // the error shows when the file is opened
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	before := r.seen[real]
	r.seen[real] = true
	return before
}

// A walk finds the manifests of a directory and all below it, in order.
type walk struct {
	*Reader
	ctx   context.Context
	root  string
	files []string
	errs  []error
	// some reports whether there are manifests, found before or not.
	some bool
	// renders reports whether kustomizations are rendered. besides are the manifests beside them.
	renders        bool
	kustomizations []kustomization
	besides        []string
}

// directory finds the manifests of a directory that is the root or below it. Like kubectl it doesn't
// follow links to directories: they may lead anywhere, and back.
func (w *walk) directory(dir string) {
	if w.markFound(dir) {
		w.some = true
		return
	}
	entries, err := w.entries(dir)
	if err != nil {
		w.fail(dir, err)
		return
	}
	k, isRendered := kustomization{}, false
	if w.renders {
		var names []string
		for _, entry := range entries {
			if !w.excludes(w.root, filepath.Join(dir, entry.Name())) {
				names = append(names, entry.Name())
			}
		}
		if k, isRendered = w.kustomizationIn(dir, names); isRendered {
			w.some = true
			w.kustomizations = append(w.kustomizations, k)
		}
	}
	for _, entry := range entries {
		if w.ctx.Err() != nil {
			return
		}
		path := filepath.Join(dir, entry.Name())
		if w.excludes(w.root, path) {
			continue
		}
		if entry.IsDir() {
			w.directory(path)
			continue
		}
		isManifest := slices.Contains(manifestSuffixes, strings.ToLower(filepath.Ext(path)))
		isLink := entry.Type()&fs.ModeSymlink != 0
		if !isManifest && !isLink {
			continue
		}
		info, err := w.Within.Stat(path)
		switch {
		case err == nil && isLink && info.IsDir():
			w.leftOut.links = append(w.leftOut.links, path)
		case !isManifest:
		case err != nil:
			w.fail(path, err)
		case !info.Mode().IsRegular(): // reading a pipe could block forever
			w.fail(path, errors.New("it is not a regular file"))
		case isRendered:
			if path != k.file {
				w.besides = append(w.besides, path)
			}
		default:
			if w.some = true; !w.markFound(path) {
				w.files = append(w.files, path)
			}
		}
	}
}

func (w *walk) fail(path string, err error) { w.errs = append(w.errs, fileError(path, err)) }

// entries returns the entries of a directory, sorted by name.
func (r *Reader) entries(dir string) ([]fs.DirEntry, error) {
	file, err := r.Within.Open(dir)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries, err := file.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// excludes reports whether a pattern leaves out a path below root.
func (r *Reader) excludes(root, path string) bool {
	below, err := filepath.Rel(root, path)
	return err == nil && slices.ContainsFunc(r.Exclude, func(pattern string) bool {
		byName, _ := filepath.Match(pattern, filepath.Base(path))
		byPath, _ := filepath.Match(filepath.Clean(pattern), below)
		return byName || byPath
	})
}

// fileError returns an Error of a file as a whole. It drops the path from the cause.
func fileError(path string, err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) && of.Path == path {
		err = of.Err
	}
	return &Error{Source: Source{File: path}, Err: err}
}
