// Package input reads the objects that are to be judged, and what there is already: from files,
// folders and streams, in YAML or JSON, each with the file and line that it stands at.
package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// A Document is an object of the input and where it stands.
type Document struct {
	Source Source
	Object *unstructured.Unstructured
}

// Source is where an object stands.
type Source struct {
	// File is as it was given; "-" for the standard input.
	File string `json:"file"`
	// Line is that of the object's first line, from 1.
	Line int `json:"line"`
}

// String is file:line.
func (s Source) String() string { return s.File + ":" + strconv.Itoa(s.Line) }

// An Error is something in the input that can't be judged.
type Error struct {
	Source Source
	Err    error
}

// Error says where, and what.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Source, e.Err) }

// Unwrap is what it is.
func (e *Error) Unwrap() error { return e.Err }

// maxFile is how large an input may be, in bytes. A cluster takes 3 MiB in a request; this is for
// many objects.
const maxFile = 64 << 20

// manifestSuffixes are what files are called that a directory is read for.
var manifestSuffixes = []string{".yaml", ".yml", ".json"}

// Read reads objects from files, from directories with all that is below them, and from stdin where
// a path is "-". What can't be read is an error each; all else is returned nevertheless.
func Read(paths []string, stdin io.Reader) ([]Document, []error) {
	var documents []Document
	var errs []error
	for _, path := range paths {
		found, err := read(path, stdin)
		documents = append(documents, found...)
		errs = append(errs, err...)
	}
	return documents, errs
}

func read(path string, stdin io.Reader) ([]Document, []error) {
	if path == "-" {
		return parse(path, stdin)
	}
	files, err := Files(path)
	if err != nil {
		return nil, []error{err}
	}
	var documents []Document
	var errs []error
	for _, file := range files {
		found, err := readFile(file)
		documents = append(documents, found...)
		errs = append(errs, err...)
	}
	return documents, errs
}

// Files are what a path means: itself, or all manifests below a directory, in order, of which there
// must be one.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	files, err := manifests(path, nil)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no manifests in it: no file ends in %s", path, strings.Join(manifestSuffixes, ", "))
	}
	return files, err
}

// manifests are the files below a directory, in order. Links are followed, once: above are the
// directories that lead here.
func manifests(dir string, above []fs.FileInfo) ([]string, error) {
	self, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(above, func(info fs.FileInfo) bool { return os.SameFile(info, self) }) {
		return nil, fmt.Errorf("%s: a link that leads to a directory above it", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		switch {
		case info.IsDir():
			below, err := manifests(path, append(slices.Clone(above), self))
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case slices.Contains(manifestSuffixes, strings.ToLower(filepath.Ext(path))):
			files = append(files, path)
		}
	}
	return files, nil
}

func readFile(path string) ([]Document, []error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, []error{err}
	}
	defer file.Close()
	return parse(path, file)
}

// parse reads all documents of a stream: YAML or JSON, many or one, lists taken apart.
func parse(name string, in io.Reader) ([]Document, []error) {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", name, err)}
	}
	if len(data) > maxFile {
		return nil, []error{fmt.Errorf("%s: larger than %d MiB", name, maxFile>>20)}
	}
	var documents []Document
	var errs []error
	for _, part := range split(data) {
		source := Source{name, part.line}
		found, err := decode(source, part.text)
		documents = append(documents, found...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return documents, errs
}

// part is one document of a stream.
type part struct {
	text []byte
	line int // of its first line that says something
}

// separator is what divides documents.
var separator = regexp.MustCompile(`^---(\s|$)`)

// split divides a stream into its documents, without those that say nothing.
func split(data []byte) []part {
	var parts []part
	var text bytes.Buffer
	begin, line := 0, 0
	flush := func() {
		if begin > 0 {
			parts = append(parts, part{bytes.Clone(text.Bytes()), begin})
		}
		text.Reset()
		begin = 0
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxFile+1)
	for lines.Scan() {
		line++
		content := lines.Bytes()
		if separator.Match(content) {
			flush()
			continue
		}
		trimmed := bytes.TrimSpace(content)
		if begin == 0 && len(trimmed) > 0 && trimmed[0] != '#' && !bytes.HasPrefix(trimmed, []byte("%YAML")) {
			begin = line
			// Lines before it are kept out, so that errors of the parser count from here.
			text.Reset()
		}
		text.Write(content)
		text.WriteByte('\n')
	}
	flush()
	return parts
}

// yamlLine is how the parser says where something is wrong.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// decode reads one document: an object, or a list of objects.
func decode(source Source, text []byte) ([]Document, error) {
	if bytes.Contains(text, []byte("{{")) && !json.Valid(text) {
		if _, err := yaml.YAMLToJSON(text); err != nil {
			return nil, &Error{source, errors.New("a template that was not rendered: it has {{ … }} " +
				"(render it first: helm template … | gatehouse review -f -)")}
		}
	}
	var content any
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err == nil {
		err = utiljson.Unmarshal(encoded, &content)
	}
	if err != nil {
		return nil, syntaxError(source, err)
	}
	if content == nil {
		return nil, nil
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, &Error{source, fmt.Errorf("no object: it is %s", kindOf(content))}
	}
	object := &unstructured.Unstructured{Object: fields}
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		return nil, &Error{source, errors.New("no object: apiVersion and kind must be set")}
	}
	if !object.IsList() {
		return []Document{{source, object}}, nil
	}
	var documents []Document
	items, _ := fields["items"].([]any)
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, &Error{source, fmt.Errorf("items[%d]: no object: it is %s", i, kindOf(item))}
		}
		element := &unstructured.Unstructured{Object: fields}
		if element.GetAPIVersion() == "" || element.GetKind() == "" {
			return nil, &Error{source, fmt.Errorf("items[%d]: apiVersion and kind must be set", i)}
		}
		documents = append(documents, Document{source, element})
	}
	return documents, nil
}

// syntaxError is an error of the parser, which counts lines from the document's first.
func syntaxError(source Source, err error) error {
	text := err.Error()
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil && n > 0 {
			source.Line += n - 1
		}
	}
	text = strings.NewReplacer("yaml: ", "", "unmarshal errors:", "").Replace(yamlLine.ReplaceAllString(text, ""))
	return &Error{source, errors.New(strings.Join(strings.Fields(text), " "))}
}

func kindOf(value any) string {
	switch value.(type) {
	case []any:
		return "a list"
	case string:
		return "a text"
	}
	return fmt.Sprintf("%v", value)
}
