// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package input reads the objects to be judged, and the existing ones, from files, folders and
// streams, in YAML or JSON, each with its file and line.
package input

import (
	"bufio"
	"bytes"
	gojson "encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A Document is an object of the input with its source.
type Document struct {
	Source Source
	Object *unstructured.Unstructured
	// Rendered reports whether kustomize made the object from what is at Source.
	Rendered bool
}

// Source is the position of an object in the input.
type Source struct {
	// File is the file as the user named it; "-" for the standard input.
	File string `json:"file"`
	// Line is the object's first line, from 1; 0 for the file as a whole.
	Line int `json:"line"`
}

// String returns file:line, or the file alone if the line is 0.
func (s Source) String() string {
	if s.Line == 0 {
		return s.File
	}
	return s.File + ":" + strconv.Itoa(s.Line)
}

// An Error is something in the input that can't be judged.
type Error struct {
	Source Source
	Err    error
	// Object is the object, or nil if the document isn't one.
	Object *unstructured.Unstructured
}

// Error returns the source and the cause.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Source, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// MaxFile bounds an input, in bytes. A cluster accepts 3 MiB in a request; this is enough for ten
// thousand objects.
const MaxFile = 32 << 20

// parse reads all documents of a stream: YAML or JSON, many or one, lists taken apart.
func (r *Reader) parse(name string, data []byte) ([]Document, []error) {
	var documents []Document
	var errs []error
	for _, part := range split(data) {
		for _, part := range part.values() {
			found, err := r.decode(Source{name, part.line}, part.text)
			documents = append(documents, found...)
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return documents, errs
}

// part is one document of a stream.
type part struct {
	text []byte
	line int // its first line that isn't empty or a comment
}

// separatorLine divides documents.
var separatorLine = regexp.MustCompile(`^(---|\.\.\.)(\s|$)`)

// split divides a stream into its documents, without empty ones.
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
	lines.Buffer(nil, MaxFile+1)
	for lines.Scan() {
		line++
		content := lines.Bytes()
		if separatorLine.Match(content) {
			flush()
			continue
		}
		trimmed := bytes.TrimSpace(content)
		if begin == 0 && len(trimmed) > 0 && trimmed[0] != '#' && !bytes.HasPrefix(trimmed, []byte("%YAML")) {
			begin = line
			// Without the lines before it, the parser's errors count lines from here.
			text.Reset()
		}
		text.Write(content)
		text.WriteByte('\n')
	}
	flush()
	return parts
}

// values returns the JSON documents of a part, which may follow each other without a separator.
// (The YAML parser would read only the first.) If the rest isn't JSON, it is one more document.
func (p part) values() []part {
	var all []part
	p.text = bytes.TrimLeft(p.text, " ")
	for decoder := gojson.NewDecoder(bytes.NewReader(p.text)); bytes.HasPrefix(p.text, []byte("{")); {
		var value gojson.RawMessage
		if decoder.Decode(&value) != nil {
			break
		}
		all = append(all, part{value, p.line})
		rest := bytes.TrimLeft(p.text[len(value):], " \t\r\n")
		p.line += bytes.Count(p.text[:len(p.text)-len(rest)], []byte("\n"))
		p.text = rest
	}
	if len(p.text) > 0 {
		all = append(all, p)
	}
	return all
}

// grammarErrors are the errors of the YAML parser's grammar. It counts their lines from 0, and those of
// its other errors from 1.
var grammarErrors = []string{"did not find expected key", "did not find expected node content",
	"did not find expected '-' indicator", "did not find expected ',' or", "did not find expected <"}

// decode reads one document: an object, or a list of objects.
func (r *Reader) decode(source Source, text []byte) ([]Document, error) {
	content, err := r.parseText(text)
	if err != nil {
		if at := bytes.Index(text, []byte("{{")); at >= 0 {
			return nil, templateError(source, text, at)
		}
		return nil, syntaxError(source, text, err)
	}
	if content == nil {
		return nil, nil
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, &Error{Source: source, Err: fmt.Errorf("no object: it is %s", kindOf(content))}
	}
	object := &unstructured.Unstructured{Object: fields}
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		return nil, &Error{Source: source, Err: errors.New("no object: apiVersion and kind must be set")}
	}
	if isSuite(object) {
		r.leftOut.addSuite(source.File)
		return nil, nil
	}
	if !isList(object) {
		if isTemplate(object) {
			return nil, templateError(source, text, bytes.Index(text, []byte("{{")))
		}
		if err := CheckBounds(object); err != nil {
			return nil, &Error{Source: source, Err: err}
		}
		return []Document{{Source: source, Object: object}}, nil
	}
	lines := itemLines(text)
	return itemsOf(object, func(i int) Source {
		if i < len(lines) {
			return Source{source.File, source.Line + lines[i] - 1}
		}
		return source
	})
}

// parseText parses YAML or JSON. Unless the reader is lax, no field may be there twice.
func (r *Reader) parseText(text []byte) (content any, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		// A mapping in YAML may begin like that, too, and YAML's errors name lines.
		if twice, err := json.UnmarshalStrict(text, &content); err == nil && (r.Lax || len(twice) == 0) {
			return content, nil
		}
		content = nil
	}
	toJSON := yaml.YAMLToJSONStrict
	if r.Lax {
		toJSON = yaml.YAMLToJSON
	}
	encoded, err := toJSON(text)
	if err != nil {
		return nil, err
	}
	err = utiljson.Unmarshal(encoded, &content)
	return content, err
}

// isList reports whether an object is a list of others: a List, a PodList, or any other object with
// items, which may be null. kubectl reads files by the same rule.
func isList(o *unstructured.Unstructured) bool {
	items, has := o.Object["items"]
	return o.IsList() || has && items == nil
}

// itemsOf returns the objects of a list, each with its source. It expands lists among them. Items
// of a PodList may leave out their kind: Pod.
//
// Source: k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go#decodeToList 2fa3fe29
func itemsOf(list *unstructured.Unstructured, stands func(int) Source) ([]Document, error) {
	var documents []Document
	items, _ := list.Object["items"].([]any)
	kind, _ := strings.CutSuffix(list.GetKind(), "List")
	for i, item := range items {
		source := stands(i)
		fields, ok := item.(map[string]any)
		if !ok {
			return documents, &Error{Source: source, Err: fmt.Errorf("items[%d]: no object: it is %s", i, kindOf(item))}
		}
		element := &unstructured.Unstructured{Object: fields}
		if element.GetKind() == "" && kind != "" {
			element.SetKind(kind)
			element.SetAPIVersion(list.GetAPIVersion())
		}
		if element.GetAPIVersion() == "" || element.GetKind() == "" {
			return documents, &Error{Source: source, Err: fmt.Errorf("items[%d]: apiVersion and kind must be set", i)}
		}
		if !isList(element) {
			if err := CheckBounds(element); err != nil {
				return documents, &Error{Source: source, Err: fmt.Errorf("items[%d]: %w", i, err)}
			}
			documents = append(documents, Document{Source: source, Object: element})
			continue
		}
		below, err := itemsOf(element, func(int) Source { return source })
		if documents = append(documents, below...); err != nil {
			return documents, err
		}
	}
	return documents, nil
}

// itemLines returns the lines of the items of a list, from 1, or nil if they can't be found.
func itemLines(text []byte) []int {
	var list struct {
		Items []yamlv3.Node `yaml:"items"`
	}
	if yamlv3.Unmarshal(text, &list) != nil {
		return nil
	}
	lines := make([]int, len(list.Items))
	for i := range list.Items {
		lines[i] = list.Items[i].Line
	}
	return lines
}

// isTemplate reports whether an object's name, kind or namespace has a template that was not
// rendered. Other fields of an object may have templates of their own.
func isTemplate(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc([]string{o.GetAPIVersion(), o.GetKind(), o.GetName(), o.GetNamespace()},
		func(field string) bool { return strings.Contains(field, "{{") })
}

// templateError returns an error about a template at an offset in a document.
func templateError(source Source, text []byte, at int) error {
	source.Line += bytes.Count(text[:max(at, 0)], []byte("\n"))
	return &Error{Source: source,
		Err: errors.New("a template that was not rendered: it has {{ … }} (render it first: " +
			"helm template … | gatehouse review -f -)")}
}

// syntaxError returns an error of the YAML parser with its line in the file. The parser has no type
// for that: its text has one problem per line, which begins with the line in the document.
func syntaxError(source Source, document []byte, err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	var problems []string
	for problem := range strings.SplitSeq(text, "\n") {
		problem = strings.TrimSpace(problem)
		if at, after, ok := strings.Cut(strings.TrimPrefix(problem, "line "), ": "); ok {
			if n, err := strconv.Atoi(at); err == nil {
				problem = after
				if !slices.ContainsFunc(grammarErrors, func(e string) bool { return strings.HasPrefix(after, e) }) {
					n--
				}
				if len(problems) == 0 {
					// An error at the end of the text is on the last line.
					source.Line += max(0, min(n, bytes.Count(document, []byte("\n"))-1))
				}
			}
		}
		problems = append(problems, problem)
	}
	return &Error{Source: source, Err: Shorten(errors.New(strings.Join(problems, " ")))}
}

// kindOf describes a value that isn't an object.
func kindOf(value any) string {
	switch value.(type) {
	case []any:
		return "a list"
	case string:
		return "a text"
	}
	return fmt.Sprintf("%v", value)
}
