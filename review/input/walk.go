package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifestSuffixes are what files are called that a directory is read for.
var manifestSuffixes = []string{".yaml", ".yml", ".json"}

// A Reader reads objects. Its zero value reads all that is in files and directories.
type Reader struct {
	// Stdin is read for the path "-".
	Stdin io.Reader
	// Exclude leaves out files and directories below a directory, by patterns as filepath.Match
	// has them, each for a name or for a path from that directory.
	Exclude []string
	// Lax takes the last of the fields of an object that have the same name, as kubectl does.
	// Otherwise they are an error.
	Lax bool

	leftOut leftOut
}

// Read reads objects from files, from directories with all that is below them, and from stdin where
// a path is "-". What can't be read is an Error each; all else is returned nevertheless.
func Read(paths []string, stdin io.Reader) ([]Document, []error) {
	return (&Reader{Stdin: stdin}).Read(paths)
}

// Files are what a path means: itself, or all manifests below a directory, in order, of which there
// must be one. What can't be looked at is an Error each.
func Files(path string) (files []string, errs []error) { return (&Reader{}).files(path) }

// Read reads objects from files, from directories with all that is below them, and from Stdin if a
// path is "-". What can't be read is an Error each; all else is returned nevertheless.
//
// Files of a directory that belong to kustomize or to a chart are left out, and JSON that is no
// object: Notes names them.
func (r *Reader) Read(paths []string) ([]Document, []error) {
	for _, pattern := range r.Exclude {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return nil, []error{fmt.Errorf("exclude=%s: %w", pattern, err)}
		}
	}
	var documents []Document
	var errs []error
	for _, path := range paths {
		found, err := r.read(path)
		documents = append(documents, found...)
		errs = append(errs, err...)
	}
	return documents, errs
}

// Notes say which files were left out, and how to have them judged.
func (r *Reader) Notes() []string { return r.leftOut.notes() }

func (r *Reader) read(path string) ([]Document, []error) {
	if path == "-" {
		return r.readStream(path, r.Stdin, false)
	}
	files, errs := r.files(path)
	var documents []Document
	for _, file := range files {
		found, err := r.readFile(file, file != path)
		documents = append(documents, found...)
		errs = append(errs, err...)
	}
	return documents, errs
}

// readFile reads a file; listed says that it wasn't named, but found in a directory.
func (r *Reader) readFile(path string, listed bool) ([]Document, []error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, []error{fileError(path, err)}
	}
	defer file.Close()
	return r.readStream(path, file, listed)
}

// readStream reads all documents of a stream.
func (r *Reader) readStream(name string, in io.Reader, listed bool) ([]Document, []error) {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, []error{fileError(name, err)}
	}
	if len(data) > maxFile {
		return nil, []error{fileError(name, fmt.Errorf("larger than %d MiB, which is too much at a time: divide it",
			maxFile>>20))}
	}
	if listed && r.leftOut.take(name, data) {
		return nil, nil
	}
	return r.parse(name, data)
}

// files are what a path means.
func (r *Reader) files(path string) (files []string, errs []error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, []error{fileError(path, err)}
	case !info.IsDir():
		return []string{path}, nil
	}
	if files, errs = r.manifests(path, path, nil); files == nil && errs == nil {
		errs = []error{fileError(path, fmt.Errorf("no manifests in it: no file ends in %s",
			strings.Join(manifestSuffixes, ", ")))}
	}
	return files, errs
}

// manifests are the files of a directory that is root or below it, in order. Links are followed,
// once: above are the directories that lead here.
func (r *Reader) manifests(root, dir string, above []fs.FileInfo) (files []string, errs []error) {
	self, err := os.Stat(dir)
	if err != nil {
		return nil, []error{fileError(dir, err)}
	}
	if slices.ContainsFunc(above, func(info fs.FileInfo) bool { return os.SameFile(info, self) }) {
		return nil, []error{fileError(dir, errors.New("a link that leads to a directory above it"))}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, []error{fileError(dir, err)}
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if r.excludes(root, path) {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			errs = append(errs, fileError(path, err))
		case info.IsDir():
			below, belowErrs := r.manifests(root, path, append(slices.Clone(above), self))
			files, errs = append(files, below...), append(errs, belowErrs...)
		case !slices.Contains(manifestSuffixes, strings.ToLower(filepath.Ext(path))):
		case !info.Mode().IsRegular(): // nobody may write to that pipe
			errs = append(errs, fileError(path, errors.New("it is no regular file")))
		default:
			files = append(files, path)
		}
	}
	return files, errs
}

// excludes reports whether a pattern leaves out what a path below root leads to.
func (r *Reader) excludes(root, path string) bool {
	below, err := filepath.Rel(root, path)
	return err == nil && slices.ContainsFunc(r.Exclude, func(pattern string) bool {
		byName, _ := filepath.Match(pattern, filepath.Base(path))
		byPath, _ := filepath.Match(filepath.Clean(pattern), below)
		return byName || byPath
	})
}

// fileError is an error of a file as a whole, which it doesn't name once more.
func fileError(path string, err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) && of.Path == path {
		err = of.Err
	}
	return &Error{Source: Source{File: path}, Err: err}
}
