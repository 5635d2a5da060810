// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/review/input"
)

// maxFile bounds a file with suites, in bytes.
const maxFile = 16 << 20

// Read reads the suites of files, and of directories with everything below them. It skips documents
// that are no suites, because these are what suites are about. It returns an error with its line
// for each mistake, and no suite with an error.
//
// A suite may come from anybody. It reads files in its own folder and in the directories among
// paths, and no others.
func Read(ctx context.Context, paths []string) ([]Suite, []error) {
	var suites []Suite
	var errs []error
	var named input.Folders
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			named = append(named, path)
		}
	}
	reader := &input.Reader{}
	for _, path := range paths {
		files, wrong := reader.Files(ctx, path)
		var found []Suite
		some := false
		for _, file := range files {
			if err := ctx.Err(); err != nil {
				return nil, []error{err}
			}
			within := named
			if file == path { // it is named itself
				within = append(input.Folders{filepath.Dir(path)}, named...)
			}
			s, err := readFile(ctx, file, within)
			found, wrong = append(found, s...), append(wrong, err...)
			some = some || len(s) > 0
		}
		if len(files) > 0 && !some && len(wrong) == 0 {
			wrong = []error{fileError(path, fmt.Errorf("no suites in it: no document is of kind %s", Kind))}
		}
		suites, errs = append(suites, found...), append(errs, wrong...)
	}
	if err := ctx.Err(); err != nil {
		return nil, []error{err}
	}
	return suites, errs
}

func readFile(ctx context.Context, path string, within input.Folders) ([]Suite, []error) {
	data, err := content(ctx, path, within)
	switch {
	case errors.Is(err, input.ErrOutside):
		return nil, []error{fileError(path, fmt.Errorf("%w: name what it leads to, or remove the link", withoutPath(err)))}
	case err != nil:
		return nil, []error{fileError(path, withoutPath(err))}
	case !bytes.Contains(data, []byte(Kind)):
		return nil, nil
	case len(data) > maxFile:
		return nil, []error{fileError(path, fmt.Errorf("larger than %d MiB", maxFile>>20))}
	}
	return parse(path, data, within)
}

// content returns the beginning of a file: as many bytes as one may have, and one more. It gives up
// if the context ends, because a pipe may never be written.
func content(ctx context.Context, path string, within input.Folders) ([]byte, error) {
	type read struct {
		data []byte
		err  error
	}
	reads := make(chan read, 1)
	go func() {
		file, err := within.Open(path)
		if err != nil {
			reads <- read{err: err}
			return
		}
		defer file.Close()
		data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
		reads <- read{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case read := <-reads:
		return read.data, read.err
	}
}

// fileError returns an error about a file as a whole.
func fileError(path string, err error) error {
	return &input.Error{Source: input.Source{File: path}, Err: err}
}

// withoutPath returns the cause of an error about a file, without the path.
func withoutPath(err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Parse reads the suites in the data of a file. Paths in it are relative to the file's folder, and
// mustn't lead out of that.
func Parse(path string, data []byte) ([]Suite, []error) {
	return parse(path, data, input.Folders{filepath.Dir(path)})
}

// parse is Parse for a file whose suites may read what is in some folders.
func parse(path string, data []byte, within input.Folders) ([]Suite, []error) {
	var suites []Suite
	var errs []error
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return suites, errs
		} else if err != nil {
			return suites, append(errs, syntaxError(path, err))
		}
		s, wrong := decode(path, &document, within)
		if errs = append(errs, wrong...); s != nil && len(wrong) == 0 {
			suites = append(suites, *s)
		}
	}
}

// suiteFields are the fields of a suite.
type suiteFields struct {
	APIVersion yaml.Node `yaml:"apiVersion"`
	Kind       yaml.Node
	Metadata   struct {
		// Name is the name of the suite; by default the file's name without the suffix.
		//
		//schema:pattern "^[^/]*$"
		Name string
	}
	// Spec says what is there, and what is written.
	//
	//schema:required
	Spec struct {
		// State is what is there before every case: objects, and paths of files and folders with objects. It is
		// stored as it is, and not judged.
		//
		//schema:items {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/object"}]}
		State []yaml.Node
		// Flags are flags of gatehouse review for this suite.
		//
		//schema:items {"type": ["string", "number", "boolean"]}
		Flags []yaml.Node
		// Cases are the cases.
		//
		//schema:required
		//schema:minItems 1
		//schema:items {"$ref": "#/definitions/case"}
		Cases []yaml.Node
	}
}

// decode reads one document. It returns nil if the document isn't a suite.
func decode(path string, document *yaml.Node, within input.Folders) (s *Suite, errs []error) {
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return nil, nil
	}
	root := document.Content[0]
	source := input.Source{File: path, Line: root.Line}
	defer recoverTooLarge(&errs, source)
	r := &reader{decoder: decoder{file: path}, within: within, files: map[string]fileContent{}, names: map[string]int{}}
	if version, kind := header(root); kind != Kind {
		return nil, nil
	} else if version != APIVersion {
		return nil, []error{&input.Error{Source: source, Err: fmt.Errorf("apiVersion: it is %q, and must be %q",
			version,
			APIVersion)}}
	}
	s = &Suite{Source: source, Within: within, Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
	var fields suiteFields
	r.decode(root, &fields, "")
	s.Name = cmp.Or(fields.Metadata.Name, s.Name)
	s.State = r.readDocuments(fields.Spec.State, "spec.state")
	for i := range fields.Spec.Flags {
		s.Flags = append(s.Flags, r.readFlag(&fields.Spec.Flags[i], fmt.Sprintf("spec.flags[%d]", i))...)
	}
	for i := range fields.Spec.Cases {
		r.readCase(&fields.Spec.Cases[i], fmt.Sprintf("spec.cases[%d]", i), caseRow{}, s)
	}
	if strings.Contains(s.Name, "/") {
		r.addError(root, "metadata.name: Invalid value: %q: it may not have a slash", s.Name)
	}
	if len(r.errs) == 0 && len(s.Cases) == 0 {
		r.addError(root, "%v", field.Required(field.NewPath("spec", "cases"), "a suite needs a case"))
	}
	slices.SortStableFunc(r.errs, func(a, b *input.Error) int { return a.Source.Line - b.Source.Line })
	for _, err := range r.errs {
		errs = append(errs, err)
	}
	return s, errs
}

// header returns the apiVersion and the kind of a document.
func header(root *yaml.Node) (apiVersion, kind string) {
	for i := 0; i+1 < len(root.Content) && root.Kind == yaml.MappingNode; i += 2 {
		switch root.Content[i].Value {
		case "apiVersion":
			apiVersion = root.Content[i+1].Value
		case "kind":
			kind = root.Content[i+1].Value
		}
	}
	return apiVersion, kind
}

// reader reads a suite.
type reader struct {
	decoder
	// within are the folders that the suite may read.
	within input.Folders
	// files has the contents of the files that were read, by path.
	files map[string]fileContent
	// names has the line of each case, by its name.
	names map[string]int
}

// fileContent is the result of reading a file or a directory.
type fileContent struct {
	documents []input.Document
	errs      []error
}

// fileFlags are flags that name a file.
var fileFlags = []string{"admission-control-config-file", "like"}

// readFlag reads a flag. It returns no flag if the text is empty. It makes a path in the flag
// relative to the current directory.
func (r *reader) readFlag(n *yaml.Node, path string) []Flag {
	var text string
	if r.decode(n, &text, path); text == "" {
		return nil
	}
	name, value, ok := strings.Cut(text, "=")
	if plain := strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-"); ok && slices.Contains(fileFlags, plain) {
		text = name + "=" + r.resolvePath(value)
	}
	return []Flag{{input.Source{File: r.file, Line: n.Line}, text}}
}

// resolvePath returns a path in the suite's file relative to the current directory.
func (r *reader) resolvePath(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// readDocuments reads objects, and paths of files and directories with objects.
func (r *reader) readDocuments(items []yaml.Node, path string) []input.Document {
	var all []input.Document
	for i := range items {
		item, path := r.resolve(&items[i]), fmt.Sprintf("%s[%d]", path, i)
		if item.Kind == yaml.MappingNode {
			if object := r.readObject(item, path); object != nil {
				all = append(all, input.Document{Source: input.Source{File: r.file, Line: item.Line}, Object: object})
			}
			continue
		}
		var name string
		if r.decode(item, &name, path); name != "" {
			all = append(all, r.readFiles(item, path, name)...)
		}
	}
	return all
}

// readObject reads an object that is written in the suite.
func (r *reader) readObject(n *yaml.Node, path string) *unstructured.Unstructured {
	fields := r.mapping(n, path)
	if fields == nil {
		return nil
	}
	object := &unstructured.Unstructured{Object: fields}
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		r.addError(r.resolve(n), "%s: apiVersion and kind must be set", path)
		return nil
	}
	if err := input.CheckBounds(object); err != nil {
		r.addError(r.resolve(n), "%s: %w", path, err)
		return nil
	}
	return object
}

// readFiles reads the objects of a file or a directory that a node names.
func (r *reader) readFiles(n *yaml.Node, path, name string) []input.Document {
	name = r.resolvePath(name)
	f, ok := r.files[name]
	if !ok {
		f.documents, f.errs = (&input.Reader{Within: r.within}).Read(context.Background(), []string{name})
		r.files[name] = f
		for _, err := range f.errs {
			r.addFileError(n, path, err)
		}
	}
	return f.documents
}

// addFileError adds an error about a file that the suite names.
func (r *reader) addFileError(n *yaml.Node, path string, err error) {
	if errors.Is(err, input.ErrOutside) {
		err = fmt.Errorf("%w: name a folder on the command line that has both, or have it in the suite's", err)
	}
	r.addError(n, "%s: %w", path, err)
}

// readOne reads the object of a file that has just one.
func (r *reader) readOne(n *yaml.Node, path, name string) *unstructured.Unstructured {
	all := r.readFiles(n, path, name)
	if len(r.files[r.resolvePath(name)].errs) > 0 {
		return nil
	}
	if len(all) != 1 {
		r.addError(n, "%s: %s has %s, and a case is about one", path, r.resolvePath(name), count.Of(len(all), "object"))
		return nil
	}
	return all[0].Object
}

// checkOneOf adds an error if a value isn't one of the known ones.
func (r *reader) checkOneOf(n *yaml.Node, path, value string, all []string) {
	if !slices.Contains(all, value) {
		r.addUnknown(n, fmt.Sprintf("%s: unknown value %q", path, value), value, all)
	}
}
